"""The demo, and the local brokers on which the demo, the benchmark and the tests run."""
