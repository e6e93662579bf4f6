"""`mirror hand-back`: hands positions back to MirrorMaker 2, so that it goes on where mirror has stopped."""
