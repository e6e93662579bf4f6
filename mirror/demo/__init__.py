"""The demo, and the local brokers that it and the tests run."""
