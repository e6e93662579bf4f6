"""Runs the command line: `python -m mirror`, or this file as the application of a spark-submit."""

import sys

if not __package__:  # the file's own folder comes first then, and each module of ours would hide one of the same name
    del sys.path[0]

from mirror.cli import main

main()
