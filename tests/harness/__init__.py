"""What integration tests share: the service as a process, load on a source, and an independent judge."""
