"""Runs the command line: `python -m mirror`."""

from mirror.cli import main

main()
