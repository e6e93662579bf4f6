"""A small client for Kafka's protocol, for requests and answers that librdkafka does not offer to Python.

Each request has a fixed version, the newest that is not yet "flexible" (KIP-482). Brokers from Kafka 2.3 on answer
these versions (KIP-896).
"""
