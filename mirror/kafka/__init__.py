"""Kafka through its client library, librdkafka: clients, admin requests, and what the library only logs."""
