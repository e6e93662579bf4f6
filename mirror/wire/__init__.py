"""Kafka's protocol, spoken without librdkafka: what that keeps from Python has to be asked for here.

Versions are fixed, each the newest that is not yet "flexible" (KIP-482): brokers from 2.3 on answer them (KIP-896).
"""
