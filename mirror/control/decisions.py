"""Incidents, which block a partition until an operator decides, and the operators' decisions. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from mirror import decode
from mirror.control.orders import VALUE_MAX, key_parts
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow

KEY = "decision/"

# Records that cannot be copied: `mirror resume --skip-lost` continues after them.
LOST_KINDS = ("deleted", "truncated", "recreated", "corrupt", "refused")
# Reasons to distrust a position: `mirror resume` with --continue, --from-start or --at decides.
POSITION_KINDS = ("remote_topic", "position_missing", "position_foreign", "position_back", "unknown_records")

Choice = Literal["skip", "continue", "start", "at"]


class Incident(NamedTuple):
    """What has happened to one partition. A decision names its incident, so it never applies to a later one.

    `offset` and `resets` come from the newest known position. They are -1 and 0 if there is none, or if the topic's id
    is enough to identify the incident. Without any position the remote topic and the flow's group identify it:
    another copy into that topic may be `unknown_records` once more.
    """

    kind: str
    topic_id: str  # of the source topic
    remote_id: str = ""  # of the remote topic that had the copy, or has the unknown records
    offset: int = -1
    resets: int = 0
    group: str = ""  # of the flow; "" but for `unknown_records`


@dataclass(frozen=True, slots=True)
class Decision:
    """An operator's decision about one incident of a partition. `offset` is used by the choice `at` only.

    `request` tells it from one that was the same before: a task may follow this one, though it could not follow that.
    """

    partition: Partition
    incident: Incident
    choice: Choice
    offset: int = -1
    request: str = ""  # "": of an older mirror

    def key(self) -> bytes:
        """The record key: a partition's newest decision replaces the older ones."""
        return f"{KEY}{self.partition.topic}/{self.partition.partition}".encode()

    def encode(self) -> bytes:
        """The record value, JSON."""
        raw = {"incident": self.incident, "action": self.choice, "offset": self.offset, "request": self.request}
        return json.dumps(raw).encode()

    @staticmethod
    def decode(key: bytes, value: bytes) -> Decision:
        """The decision that `key` and `encode` made. Raises DecodeError."""
        topic, number = key_parts(key, KEY)
        partition = Partition(topic, decode.number_of_key(number))
        said = decode.fields(decode.parsed(value, VALUE_MAX), _DECIDED, _ADDED_LATER)
        return Decision(partition, said["incident"], said["action"], said["offset"], said.get("request", ""))


def an_incident(raw: Any) -> Incident:
    """Decode an incident from its JSON list. Raises DecodeError."""
    return Incident(*decode.elements(raw, _INCIDENT, [decode.text]))


_INCIDENT: Sequence[decode.Check[Any]] = [
    decode.name,
    decode.name,
    decode.name,
    decode.integer(-1),
    decode.integer(),
]
_DECIDED: Mapping[str, decode.Check[Any]] = {
    "incident": an_incident,
    "action": decode.among(get_args(Choice)),
    "offset": decode.integer(-1),
}
_ADDED_LATER: Mapping[str, decode.Check[Any]] = {"request": decode.name}


def doubt(
    found: Position | None, newest: Position | None, topic: Topic, has_records: Callable[[], bool], group: str = ""
) -> Incident | None:
    """The incident that makes the loaded position `found` untrustworthy; None if it can be trusted.

    `newest` is the newest position that we, or the partition's last report, know of. `has_records` is True if the
    remote partition has records that a read_committed consumer sees; it is called only if there is no position at all.
    `group` is the flow's; whoever follows a decision gives it.
    """
    known = newest or found
    before = next((each.remote_id for each in (found, newest) if each and each.remote_id), "")
    if before and topic.remote_id and before != topic.remote_id:
        return remote_topic(topic, before)
    incident = Incident("", topic.topic_id, before, *(known.offset, known.resets) if known else (-1, 0))
    if found is None:
        if newest is not None:
            return incident._replace(kind="position_missing")
        return Incident("unknown_records", topic.topic_id, topic.remote_id, group=group) if has_records() else None
    if not found.topic_id:
        return incident._replace(kind="position_foreign")
    return incident._replace(kind="position_back") if newest is not None and _is_back(found, newest, topic) else None


def _is_back(found: Position, newest: Position, topic: Topic) -> bool:
    """True if `found` is older. If `newest` is of the present source topic, a position of a former topic is older."""
    if newest.topic_id == found.topic_id:
        return found.progress < newest.progress
    return newest.topic_id == topic.topic_id and found.resets <= newest.resets


def remote_topic(topic: Topic, before: str) -> Incident:
    """The incident that the remote topic with the copy (id `before`) is gone, or another topic has its name."""
    return Incident("remote_topic", topic.topic_id, before)


def explain(incident: Incident, found: Position | None, topic: Topic, group: str) -> str:
    """Say what has happened and what to do, for people."""
    choices = "decide with mirror resume --continue, --from-start or --at"
    if incident.kind == "remote_topic":
        now = "it was deleted" if topic.remote_lost else "another topic has its name"
        return f"{topic.remote} on the target is not the topic that had the copy: {now}; {choices}"
    if incident.kind == "position_missing":
        return f"the position in group {group} is gone, it was {incident.offset}; {choices}"
    if incident.kind == "position_foreign":
        at = found.offset if found else -1
        if found is not None and found.is_handed_back:
            said = f"position {at} in group {group} was handed back to MirrorMaker"
            return f"{said}; stop both and take it over with mirror adopt, or {choices}"
        return f"position {at} in group {group} was not committed by mirror; {choices}"
    if incident.kind == "position_back":
        at = found.offset if found else -1
        return f"the position in group {group} went back from {incident.offset} to {at}; {choices}"
    return f"{topic.remote} has records, but group {group} has no position: they may be copied twice; {choices}"


def unfindable(explained: str, newest: Position | None, topic: Topic, why: str) -> str:
    """Say, for people, that `continue` was chosen, but it can't be told where the copy ends. `explained` by `explain`.

    `newest` is the newest position that is known.
    """
    happened = explained.partition("; ")[0]
    known = "" if newest is None else f"; the newest position that is known is {newest.offset}"
    choices = "decide with mirror resume --at or --from-start"
    return f"{happened}; --continue can't find where the copy in {topic.remote} ends: {why}{known}; {choices}"


def is_accepted(incident: Incident, flow: Flow) -> bool:
    """True if the configuration accepts the incident: copying then continues from the newest known position."""
    if incident.kind == "remote_topic":
        return flow.on_data_loss == "skip"
    return incident.kind == "unknown_records" and flow.append_to_existing


def decided(incident: Incident, decision: Decision | None) -> Choice | None:
    """The choice that was made for this incident; None if nothing was."""
    return decision.choice if decision is not None and decision.incident == incident else None


def chosen(
    choice: Choice, offset: int, found: Position | None, newest: Position | None, topic: Topic
) -> Position | None:
    """The position from which the partition continues; None to begin like a partition that was never copied.

    `offset` is used by two choices: for `start` it is the source's first offset, for `at` the chosen one.
    """
    known = [each for each in (newest, found) if each is not None]
    if choice == "continue":
        if not known:
            return None
        at = max((each for each in known if each.topic_id), key=_knowledge, default=known[0])
        at = replace(at, topic_id=at.topic_id or topic.topic_id)
        return replace(at.reset(at.offset, topic.remote_id), resets=_resets(known))
    last = max(known, key=_knowledge, default=None)
    map_end = last.map_end_in(topic.topic_id, topic.remote_id) if last is not None else None
    return Position(offset, topic.topic_id, remote_id=topic.remote_id, resets=_resets(known), map_end=map_end)


def _knowledge(position: Position) -> tuple[tuple[int, int], bool]:
    """The key by which the newest position is chosen. Of two with the same progress, the one with `map_end` wins."""
    return position.progress, position.map_end is not None


def _resets(known: list[Position]) -> int:
    return 1 + max((each.resets for each in known), default=0)
