"""Spark: the session, the data source whose partitions are a flow's slices, and short jobs."""
