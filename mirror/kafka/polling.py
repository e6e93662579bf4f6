"""Takes what a consumer has, without waiting for more."""

from __future__ import annotations

from confluent_kafka import Consumer, Message


def polled(consumer: Consumer, seconds: float, most: int) -> list[Message]:
    """What has come, records and errors: the first within so many seconds, and up to `most` that are there with it.

    `poll` returns with the first. `consume` would wait until it has as many as it is asked for, so it is called without
    a time-out.
    """
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(most, 0)]
