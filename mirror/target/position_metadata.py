"""The metadata that is committed with a position: what Kafka's own fields have no place for, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from mirror import decode
from mirror.model import MapEnd, Position

METADATA_MAX = 2**16  # bytes
# confluent-kafka commits the NUL with which C ends a text. librdkafka copies what it is told without adding one, so
# confluent-kafka would read beyond the end of metadata that has none.
_END = "\0"


def _map_end(raw: Any) -> MapEnd:
    numbers = [decode.integer(-1), decode.integer()]
    found = MapEnd(*decode.elements(raw, numbers, optional=[decode.integer(), decode.integer(-1)]))
    if found.placed and not (found.placed <= found.records and found.place >= found.entry + found.placed):
        raise decode.DecodeError("the places of records contradict each other")
    return found


_REQUIRED: Mapping[str, decode.Check[Any]] = {"topic_id": decode.name}
_ADDED_LATER: Mapping[str, decode.Check[Any]] = {
    "since": decode.integer(-1, decode.INT32_MAX),
    "remote_id": decode.name,
    "resets": decode.integer(),
    "map_end": _map_end,
}


def encoded(position: Position) -> str:
    """What is committed beside the offset and its leader epoch."""
    more: dict[str, object] = (
        {"since": position.epoch_before_markers} if position.epoch_before_markers > position.epoch else {}
    )
    if position.remote_id:
        more["remote_id"] = position.remote_id
    if position.resets:
        more["resets"] = position.resets
    if position.map_end is not None:
        more["map_end"] = astuple(position.map_end)[: 4 if position.map_end.placed else 2]
    return json.dumps({"topic_id": position.topic_id, **more}, separators=(",", ":"))


def terminated(metadata: str) -> str:
    """The text as confluent-kafka commits it: what is committed without librdkafka has to be like that, too."""
    return metadata + _END


def without_end(metadata: str) -> str:
    """The text of metadata, whoever has committed it."""
    return metadata.partition(_END)[0]


def decoded(offset: int, epoch: int, metadata: str | None) -> Position | None:
    """The position that was committed like this; None if none was. An epoch below 0 is not known."""
    if offset < 0:
        return None
    try:
        found = decode.fields(decode.parsed(without_end(metadata or ""), METADATA_MAX), _REQUIRED, _ADDED_LATER)
    except decode.DecodeError:  # committed by somebody else's tool
        found = {"topic_id": ""}
    since = found.pop("since", -1)
    return Position(offset, epoch=max(-1, epoch), epoch_before_markers=since, **found)
