"""A client for Kafka's protocol, on asyncio, for what librdkafka does not offer to Python.

Each request has a range of versions, of which the newest that the broker has is used. Brokers from Kafka 2.3 on have
what `mirror verify` needs. Answers are decoded here, and each length and each count is checked before memory is
reserved for it.
"""
