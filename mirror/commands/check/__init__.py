"""`mirror check`: would a run work?"""
