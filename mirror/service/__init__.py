"""The service: leads its flows, publishes their plans and runs their Spark queries."""
