"""Faults on real clusters and real Spark, round after round, each judged by the checker: `make chaos`."""
