"""What errors of librdkafka mean."""

from __future__ import annotations

from confluent_kafka import KafkaError

from mirror.kafka.client_errors import is_away, is_lasting


def test_a_refused_login_is_tried_again() -> None:
    """With a password that has expired, librdkafka's own requests fail so. The service waits for another one."""
    refused = KafkaError(KafkaError._AUTHENTICATION)
    assert is_away(refused) and not is_lasting(refused)
