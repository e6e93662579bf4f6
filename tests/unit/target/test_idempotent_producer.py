"""A producer for a target without transactions: which records are delivered, and what it keeps of what goes wrong."""

from __future__ import annotations

import logging
import weakref
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from mirror.target import idempotent_producer
from mirror.target.idempotent_producer import Deliveries, IdempotentProducer
from tests.unit.test_naming import flow

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


class Line(str):
    """A line of librdkafka's log, or an error of the client."""


def test_it_keeps_nothing_of_the_connections_that_it_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives for as long as its partition has records, and a broker closes idle connections every ten minutes."""
    made: list[Any] = []
    monkeypatch.setattr(idempotent_producer, "target_producer", lambda *given: made.append(given))
    any_: Any = None
    producer = IdempotentProducer(flow(exactly_once=False), any_, any_)
    ((_, properties, logger),) = made
    lines = [Line("Disconnected"), Line("all brokers are down")]
    kept = [weakref.ref(line) for line in lines]
    logger.log(logging.INFO, "%s %s: %s", "FAIL", "rdkafka#producer-1", lines[0])
    properties["error_cb"](lines[1])
    lines.clear()
    assert [each() for each in kept] == [None, None] and not producer.suspect
