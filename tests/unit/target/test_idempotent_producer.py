"""How many of a batch's first records stand on a target without transactions."""

from __future__ import annotations

from typing import cast

from confluent_kafka import KafkaError, Message

from mirror.target.idempotent_producer import Deliveries

NO_MESSAGE = cast(Message, None)  # `note` looks at none


def test_nothing_counts_as_a_record_that_is_delivered_after_a_failure() -> None:
    """Offset syncs go to another topic, after the records: it may take them although it took not all of these."""
    deliveries = Deliveries()
    for error in (None, None, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None, None):
        deliveries.note(error, NO_MESSAGE)
    assert deliveries.delivered == 2
    deliveries.begin()
    deliveries.note(None, NO_MESSAGE)
    assert deliveries.delivered == 1
