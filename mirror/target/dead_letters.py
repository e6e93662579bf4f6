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
    """The arguments of `Producer.produce`, except the topic.

    The reason and the upstream coordinates are headers before the record's own `headers`. Unless `whole`, key, value
    and headers of the record are left out, because the dead-letter topic may refuse them, too.
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
    about.append((PREFIX + "value-bytes", str(len(message)).encode()))  # of the value that is left out
    return {"key": None, "value": None, "headers": about}
