"""Ends Spark workers at chosen steps of a transaction, see sitecustomize.py."""
