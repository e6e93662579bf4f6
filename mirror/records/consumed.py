"""Reads a part of a partition through librdkafka, as read_committed consumers see it, in a form that can be compared.

Header names are cut at a NUL byte, and a record with a name that is not UTF-8 has no content.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror.batches.records import Content, encode
from mirror.errors import MirrorError
from mirror.kafka.client_errors import is_away
from mirror.kafka.polling import polled
from mirror.model import Partition
from mirror.text import duration

TIMEOUT = 30.0  # seconds for an answer of a cluster
FETCH = 5_000  # records taken at once

Record = tuple[int, int, bytes | None]  # offset, timestamp (ms), encoded content; None if it can't be read whole

# Called as a plain function: for `message.headers()` CPython does not check whether an error was set beside the result.
# Such a result has a hole, and using it would crash the process.
_headers = partial(Message.headers)


def consumed(consumer: Consumer, cluster: str, partition: Partition, start: int, stop: int) -> Iterator[Record]:
    """The records from `start` up to the offset `stop`, which is at most the end that the consumer sees.

    The consumer reports ends and has the reset `error`. Meanwhile nobody else may use it. `cluster` is its alias.
    Raises MirrorError if the records can't be read.
    """
    for message in _messages(consumer, f"{partition} on {cluster}", partition, start, stop):
        yield message.offset(), message.timestamp()[1], _content(message)


def removed(where: str) -> MirrorError:
    """The error that the log no longer has what is to be read."""
    return MirrorError(f"{where}: records were removed meanwhile, by retention or a person: try again")


def _content(message: Message) -> bytes | None:
    try:
        key, value, headers = message.key(), message.value(), _headers(message)
    except (SystemError, UnicodeDecodeError):
        return None
    return encode(Content(key, value, [(name.encode(), each) for name, each in headers or ()]))


def _messages(consumer: Consumer, where: str, partition: Partition, start: int, stop: int) -> Iterator[Message]:
    if start >= stop:
        return
    # Before the assignment, since a consumer that does not know the leaders looks for them only half a second later.
    _metadata(consumer, partition.topic, where)
    consumer.assign([TopicPartition(*partition, start)])
    try:
        while messages := polled(consumer, TIMEOUT, FETCH):
            for message in messages:
                error = message.error()
                if message.topic() is None:  # about brokers, or about the group, which may not be ours to use here
                    continue
                if error is not None:
                    _raise_if_fatal(error, where)
                if message.offset() >= stop:
                    return
                if error is None:
                    yield message
    finally:
        consumer.unassign()
    raise MirrorError(f"{where} can't be read up to offset {stop}: no answer within {duration(TIMEOUT)}")


def _metadata(consumer: Consumer, topic: str, where: str) -> None:
    try:
        consumer.list_topics(topic, TIMEOUT)
    except KafkaException as error:
        raise MirrorError(f"{where} can't be read: {error.args[0].str()}") from error


def _raise_if_fatal(error: KafkaError, where: str) -> None:
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise removed(where)
    if error.code() != KafkaError._PARTITION_EOF and not is_away(error):
        raise MirrorError(f"{where} can't be read: {error.str()}")
