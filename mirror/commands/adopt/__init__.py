"""`mirror adopt`: takes positions over from MirrorMaker 2."""
