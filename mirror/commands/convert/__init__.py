"""`mirror convert`: MirrorMaker 2's configuration as mirror's, and what became of each of its keys."""
