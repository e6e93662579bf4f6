"""Writing partitions to the target: producers, transactions, positions, and remote topics."""
