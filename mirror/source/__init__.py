"""Reading partitions from the source: the consumer, its buffers, and what the source has lost."""
