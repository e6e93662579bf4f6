"""Runs the command line: `python -m mirror`, or this file as the application of a spark-submit."""

import sys

# The file's own folder comes first on the path then, unless Python was told otherwise. Each module of ours would hide
# one of the same name.
if not __package__ and not sys.flags.safe_path:
    del sys.path[0]

from mirror.cli import main

main()
