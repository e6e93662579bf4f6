"""`mirror check`: finds out whether a run would work."""
