"""Callbacks for the delivery reports of records. They do not refer to a producer, so they keep none alive."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message

# With these errors a record of one of mirror's own topics was not delivered, and the topic may be missing. librdkafka
# waits for the metadata of a topic that is new to it, so a missing topic can look like a time-out.
NOT_DELIVERED = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._MSG_TIMED_OUT,
)


def tell_offset(
    downstream: dict[int, int], index: int, restamped: list[int] | None
) -> Callable[[KafkaError | None, Message], None]:
    """A callback that puts a record's offset into `downstream`, by index.

    If the target has set the record's timestamp, it puts that into `restamped`.
    """

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            downstream[index] = message.offset()
            kind, at = message.timestamp()
            if restamped is not None and kind == TIMESTAMP_LOG_APPEND_TIME:
                restamped.append(at)

    return delivered


def note_missing(gone: dict[str, str], topic: str) -> Callable[[KafkaError | None, Message], None]:
    """A callback that puts into `gone` why one of mirror's own topics took no record, if the topic may be missing."""

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None and error.code() in NOT_DELIVERED:
            gone[topic] = error.str()

    return delivered
