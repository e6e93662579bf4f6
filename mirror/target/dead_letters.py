"""A record that the target refuses, as it goes to the dead-letter topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

from mirror.model import Partition

PREFIX = "mirror.dead-letter."


def dead_letter(
    partition: Partition, message: Message, headers: Sequence[Any], reason: str, whole: bool
) -> dict[str, Any]:
    """What `Producer.produce` takes, but for the topic: reason and upstream coordinates before its own `headers`.

    If not `whole`, without the bytes of the record: the dead-letter topic can refuse them too.
    """
    kind, timestamp = message.timestamp()
    about: list[tuple[str, bytes | None]] = [
        (PREFIX + "reason", reason.encode()),
        (PREFIX + "topic", partition.topic.encode()),
        (PREFIX + "partition", str(partition.partition).encode()),
        (PREFIX + "offset", str(message.offset()).encode()),
        (PREFIX + "timestamp", str(timestamp if kind else -1).encode()),
    ]
    if whole:
        return {"key": message.key(), "value": message.value(), "headers": [*about, *headers]}
    about.append((PREFIX + "value-bytes", str(len(message)).encode()))  # and thus not here
    return {"key": None, "value": None, "headers": about}
