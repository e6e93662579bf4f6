"""Spark: the data source whose partitions are the slices, the session, and jobs."""
