"""One slice in one Spark task: its partitions, and the threads that copy them."""
