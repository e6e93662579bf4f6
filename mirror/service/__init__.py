"""The service: leads its flows, keeps their plans and their Spark queries going."""
