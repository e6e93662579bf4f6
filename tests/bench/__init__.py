"""The benchmark: mirror, MirrorMaker 2 and a bare loop, on the same brokers and the same source topics."""
