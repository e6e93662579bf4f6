"""A topic and its remote topic, compared record by record as read_committed consumers see them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from mirror.errors import MirrorError

TIMEOUT = 30.0  # seconds for an answer of a cluster
FETCH = 5_000  # records taken at once

Properties = Mapping[str, str]
Number = Callable[[Message], int]  # a record's number, which grows within each partition of the source


@dataclass(frozen=True, slots=True)
class Counts:
    """What a comparison has found."""

    source: int = 0  # records on the source
    target: int = 0  # records on the target
    lost: int = 0  # on the source only
    duplicated: int = 0  # on the target more often than on the source
    reordered: int = 0  # on the target after a record that follows on the source
    altered: int = 0  # another key, value, timestamp or headers

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def equal(self) -> bool:
        """Is the target what the source is?"""
        return not (self.lost or self.duplicated or self.reordered or self.altered)


def compare_topic(source: Properties, target: Properties, topic: str, remote: str, number: Number) -> Iterator[Counts]:
    """The counts of each partition in turn; both clusters are read from the beginning to the end as it is then.

    `source` and `target` are librdkafka properties. Raises MirrorError when a cluster does not answer.
    """
    with contextlib.closing(_consumer(source)) as ours, contextlib.closing(_consumer(target)) as theirs:
        ours_count, theirs_count = _partitions(ours, topic), _partitions(theirs, remote)
        for partition in range(max(ours_count, theirs_count)):
            yield judge(
                _records(ours, topic, partition) if partition < ours_count else (),
                _records(theirs, remote, partition) if partition < theirs_count else (),
                number,
            )


def judge(source: Iterable[Message], target: Iterable[Message], number: Number) -> Counts:
    """Compare two streams of one partition. What is kept in memory is only what differs."""
    seen_source, seen_target = _Counted(source), _Counted(target)
    passed: dict[int, Message] = {}  # on the source before the newest match, not yet found on the target
    duplicated = reordered = altered = 0
    ahead = next(seen_source, None)
    for found in seen_target:
        wanted = number(found)
        while ahead is not None and number(ahead) < wanted:
            passed[number(ahead)] = ahead
            ahead = next(seen_source, None)
        if ahead is not None and number(ahead) == wanted:
            original, ahead = ahead, next(seen_source, None)
        elif wanted in passed:
            original = passed.pop(wanted)
            reordered += 1
        else:
            duplicated += 1
            continue
        altered += _content(original) != _content(found)
    lost = len(passed) + (ahead is not None) + sum(1 for _ in seen_source)
    return Counts(seen_source.count, seen_target.count, lost, duplicated, reordered, altered)


class _Counted(Iterator[Message]):
    """Counts what goes through."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.count = 0
        self._messages = iter(messages)

    def __next__(self) -> Message:
        message = next(self._messages)
        self.count += 1
        return message


def _content(message: Message) -> tuple[object, ...]:
    return message.key(), message.value(), message.timestamp(), message.headers() or []


def _consumer(cluster: Properties) -> Consumer:
    fixed = {
        "group.id": "mirror-compare",  # asked for by librdkafka, never joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    return Consumer({**cluster, **fixed})


def _partitions(consumer: Consumer, topic: str) -> int:
    """How many partitions the topic has; 0 if there is no such topic."""
    return len(consumer.list_topics(topic, TIMEOUT).topics[topic].partitions)


def _records(consumer: Consumer, topic: str, partition: int) -> Iterator[Message]:
    """A partition's records from the beginning to the last stable offset."""
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    while (first := consumer.poll(TIMEOUT)) is not None:
        # `consume` waits until it has all it was asked for, unless it is told not to wait.
        for message in (first, *consumer.consume(FETCH, 0)):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            elif not error.retriable():
                raise MirrorError(f"{topic}-{partition} can't be read: {error.str()}")
    raise MirrorError(f"{topic}-{partition} can't be read: no answer within {TIMEOUT:.0f} s")
