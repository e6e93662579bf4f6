"""Flows that don't go together though no configuration has them all: what each says of itself, judged. Pure.

Which clusters a flow's topics come from stands in its plan, so the flow that closes a circle of any length finds it in
the plans on its own source.

Who may copy is decided without anybody who decides. A flow copies only after it has announced what it is going to copy,
the announcement could be read by all, it has read the others' after that, and nobody alive stood in its way. So of two
that don't go together never both copy, if each may read the other's: the one whose announcement stood last has read the
other's. One that may not read them goes on blindly, and the other gives way. Of two that have only announced, the one
with the smaller `Key` waits and the other takes its word back; so one of them goes on, and of a circle at least one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mirror.control.plan import Lineage, Origins
from mirror.kafka.clients import INTERNAL_MAX

ALIVE = 60.0  # seconds after its last sign of life for which a plan counts
NAME_MAX = 249  # characters of a topic's name, as Kafka has it; longer ones are none of ours either
ORIGINS_MAX = 100  # clusters that one topic comes from


class Key(NamedTuple):
    """Who goes first of two that have only announced: the smaller one. Both sides know both keys."""

    leader: str
    cluster: str  # id of the cluster that has the control topic
    topic: str


@dataclass(frozen=True, slots=True)
class Statement:
    """What a flow says of itself: in its plan, or in what it announces before it."""

    leader: str
    generation: int
    stop: bool
    remotes: Mapping[str, str]  # remote topics by source topic
    clusters: tuple[str, ...]  # ids of source and target; none: an older mirror wrote it
    origins: Origins
    written: frozenset[str] = field(init=False, compare=False)  # its remote topics

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", frozenset(self.remotes.values()))

    @staticmethod
    def decode(value: bytes) -> Statement:
        """What a stranger has written. Raises ValueError with the reason if it can't be a plan."""
        if len(value) > INTERNAL_MAX:
            raise ValueError(f"it has {len(value)} bytes")
        try:
            raw = json.loads(value)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        plan = _mapping(raw, "the plan")
        generation, topics = plan.get("generation"), _mapping(plan.get("topics"), "topics")
        if not isinstance(generation, int):
            raise ValueError("generation is no number")
        remotes = {_text(name, "a topic"): _text(_list(t, name)[0], "a remote topic") for name, t in topics.items()}
        origins = _mapping(plan.get("origins", {}), "origins")
        return Statement(
            _text(plan.get("leader"), "leader"),
            generation,
            plan.get("stop", False) is not False,
            remotes,
            _clusters(plan.get("clusters", [])),
            {_text(name, "a topic"): _ids(ids) for name, ids in origins.items()},
        )

    def comes_from(self, remote: str) -> tuple[str, ...]:
        """Ids of all clusters whose records are in a remote topic of this flow, as far as it says."""
        return self.origins.get(remote, self.clusters[:1])


def _mapping(raw: object, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{what} is no object")
    return raw


def _list(raw: object, what: str) -> list[Any]:
    if not isinstance(raw, list) or not raw:
        raise ValueError(f"{what:.50} has no list")
    return raw


def _text(raw: object, what: str) -> str:
    if not isinstance(raw, str) or not 0 < len(raw) <= NAME_MAX or not raw.isprintable():
        raise ValueError(f"{what} is no name")
    return raw


def _ids(raw: object) -> tuple[str, ...]:
    if not isinstance(raw, list) or len(raw) > ORIGINS_MAX:
        raise ValueError("clusters is no list, or too long")
    return tuple(_text(each, "a cluster id") for each in raw)


def _clusters(raw: object) -> tuple[str, ...]:
    ids = _ids(raw)
    if len(ids) not in (0, 2):
        raise ValueError("clusters are not two")
    return ids


@dataclass(frozen=True, slots=True)
class OwnFlow:
    """The flow that asks."""

    source: str  # aliases
    target: str
    clusters: tuple[str, ...]  # ids of source and target; none: a cluster does not tell
    remotes: Mapping[str, str]  # remote topics by source topic
    siblings: Collection[str] = ()  # leaders of this configuration's flows: what it copies twice it means to
    written: frozenset[str] = field(init=False, compare=False)  # its remote topics

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", frozenset(self.remotes.values()))

    @property
    def name(self) -> str:
        """As in the log."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class OtherFlow:
    """Another flow's word, found on one of our clusters."""

    key: Key
    name: str  # by its own alias of the source, and by ours of the target
    on: str  # our alias of the cluster that has it
    at_source: bool
    statement: Statement
    copies: bool  # False: announced only
    alive: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """A flow that does not go with ours, and why, for people."""

    other: OtherFlow
    why: str


def conflict(ours: OwnFlow, other: OtherFlow) -> str:
    """Why the two don't go together; nothing if they do, or if it can't be told."""
    if other.at_source:
        back = _comes_back(ours, other.statement)
        return f"records would go round for ever: {back} of {ours.source} comes from {ours.target}" if back else ""
    both = other.statement.written & ours.written
    if both:
        return f"both write to {min(both)} on {ours.target}"
    twice = _copied_twice(ours, other.statement)
    return f"both copy {twice} from one cluster ({ours.clusters[0]}), under two aliases" if twice else ""


def _comes_back(ours: OwnFlow, statement: Statement) -> str | None:
    if not ours.clusters:
        return None
    back = (
        topic for topic in statement.written & ours.remotes.keys() if ours.clusters[1] in statement.comes_from(topic)
    )
    return min(back, default=None)


def _copied_twice(ours: OwnFlow, statement: Statement) -> str | None:
    if not ours.clusters or statement.clusters[:1] != ours.clusters[:1] or statement.leader in ours.siblings:
        return None
    return min(statement.remotes.keys() & ours.remotes.keys(), default=None)


def is_relevant(ours: OwnFlow, other: OtherFlow) -> bool:
    """Does anything depend on whether the other is alive?"""
    feeds = other.at_source and not other.statement.written.isdisjoint(ours.remotes)
    return feeds or bool(conflict(ours, other))


def has_unknown_origin(ours: OwnFlow, other: OtherFlow) -> bool:
    """Does the other feed topics that we copy, without saying where they come from? An older mirror does."""
    return other.at_source and not other.statement.clusters and not other.statement.written.isdisjoint(ours.remotes)


def lineage(ours: OwnFlow, others: Iterable[OtherFlow]) -> Lineage:
    """Where all that we copy comes from: our source, and for its remote topics all that the living flows there say."""
    if not ours.clusters:
        return Lineage()
    found = {topic: {ours.clusters[0]} for topic in ours.remotes}
    for other in others:
        if other.at_source and other.alive:
            for topic in other.statement.written & found.keys():
                found[topic].update(other.statement.comes_from(topic))
    return Lineage(ours.clusters, {ours.remotes[topic]: tuple(sorted(ids)) for topic, ids in found.items()})


class Ruling(NamedTuple):
    """Why we don't copy now; `gives_way`: take back what we have announced or planned."""

    finding: Finding
    gives_way: bool


def rule(ours: Key, findings: Sequence[Finding], new: bool, announced: bool) -> Ruling | None:
    """May we copy? None: yes, or before we have `announced`: we may try.

    `new`: is there anything that our standing plan does not say yet? If not, those who have only announced give way
    to us, by what we have planned.
    """
    alive = [finding for finding in findings if finding.other.alive]
    for finding in alive:
        if finding.other.copies or (new and finding.other.key < ours):
            return Ruling(finding, True)
    return Ruling(alive[0], False) if alive and new and announced else None


class Note(NamedTuple):
    """What stands in the way, or can't be told; and what to do about it. For people."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def refusal(ours: OwnFlow, finding: Finding) -> Note:
    """Why our flow is not run."""
    return Note(
        _both(ours, finding),
        f"nothing is copied until that one is stopped, or has been silent for {ALIVE:.0f} s: stop one of the two for "
        "good, or give them topics that have none in common",
    )


def warning(ours: OwnFlow, finding: Finding) -> Note:
    """The same of a flow that shows no sign of life."""
    return Note(_both(ours, finding), "that one is silent, so it does not count: don't start it again")


def _both(ours: OwnFlow, finding: Finding) -> str:
    other = finding.other
    return f"flow {ours.name} does not go with flow {other.name} ({other.key.topic} on {other.on}): {finding.why}"
