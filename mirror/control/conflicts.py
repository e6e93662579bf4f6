"""Finds flows that conflict: they would copy records in a cycle, or copy the same records twice. Pure.

No single configuration need contain all of these flows, so each flow publishes a `Statement` about itself, and every
other flow judges it. A plan names the clusters that its topics come from. So the flow that would close a cycle, of any
length, finds out from the plans on its own source.

No arbiter decides who may copy. Before a flow copies, it does the following in this order:
1. It announces what it is going to copy, and waits until everybody can read the announcement.
2. It reads the other flows' announcements and plans.
3. It copies only if no conflicting flow is alive.

Two conflicting flows that can read each other's statements therefore never both copy: the one that announced last has
read the other's announcement. A flow that is not allowed to read the other's statements copies without knowing, and the
other one gives way. If both flows have only announced, the one with the smaller `Key` keeps its announcement and tries
again, and the other withdraws. So one of the two gets to copy, and so does at least one flow of a cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.control.plan import Lineage
from mirror.control.statement import Statement
from mirror.text import duration
from mirror.timing import ALIVE


class Key(NamedTuple):
    """Ranks flows: of two conflicting flows that have only announced, the one with the smaller key goes first.

    Both flows know both keys, so they agree.
    """

    service_id: str  # of the flow leader
    cluster: str  # id of the cluster that has the control topic
    topic: str


@dataclass(frozen=True, slots=True)
class OwnFlow:
    """The flow on whose behalf we look for conflicts."""

    source: str  # aliases
    target: str
    clusters: tuple[str, ...]  # ids of source and target; empty if one of the clusters does not report its id
    remotes: Mapping[str, str]  # remote topics by source topic
    siblings: Collection[str] = ()  # flow leaders of the same configuration, which copies twice only on purpose
    active_active: bool = False  # it carries the mark
    not_from_end: Collection[str] = ()  # source topics of which it would copy records that are there now
    resumed: Collection[str] = ()  # those of them that go on at a position, whatever `start` says
    sync_configs: bool = False  # it is to keep topic configurations in step
    new: Collection[str] = ()  # those of `not_from_end` that no plan of it has had; none if records may be there twice
    written: frozenset[str] = field(init=False, compare=False)  # its remote topics

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", frozenset(self.remotes.values()))

    @property
    def name(self) -> str:
        """The name in the log: `primary->backup`."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class OtherFlow:
    """Another flow, as its statement on one of our clusters describes it."""

    key: Key
    name: str  # made of its own alias for the source and our alias for the target
    on: str  # our alias for the cluster where the statement was found
    at_source: bool
    statement: Statement
    copies: bool  # False if the flow has only announced what it is going to copy
    alive: bool = True
    by_successor: bool = False  # alive is only a service that is to take the place of the one that made the statement


@dataclass(frozen=True, slots=True)
class ConflictingFlow:
    """A flow that conflicts with ours, and the reason as a text for people."""

    other: OtherFlow
    why: str


def conflict(ours: OwnFlow, other: OtherFlow) -> str:
    """The reason why the two flows conflict; "" if they do not, or if that cannot be known."""
    if other.at_source:
        return _cycle(ours, other.statement)
    both = other.statement.written & ours.written
    if both:
        return f"both write to {min(both)} on {ours.target}"
    twice = _copied_twice(ours, other.statement)
    return f"both copy {twice} from one cluster ({ours.clusters[0]}), under two aliases" if twice else ""


def _cycle(ours: OwnFlow, statement: Statement) -> str:
    """Why records would come back; "" if none would. If both flows carry the mark, only `old_copies` can."""
    back = comes_back(ours, statement)
    if not back:
        return ""
    said = f"{min(back)} of {ours.source} comes from {ours.target}"
    if ours.active_active != statement.active_active:
        return f"records would be copied in a cycle, because only one of the flows has active_active: true: {said}"
    return "" if ours.active_active else f"records would be copied in a cycle: {said}"


def comes_back(ours: OwnFlow, statement: Statement) -> set[str]:
    """The topics that we copy, and that the other flow brings from our target."""
    if not ours.clusters:
        return set()
    both = statement.written & ours.remotes.keys()
    return {topic for topic in both if ours.clusters[1] in statement.comes_from(topic)}


def old_copies(ours: OwnFlow, statement: Statement) -> str | None:
    """A topic that we don't copy from its end, and to which that flow has brought our target's records unmarked.

    Nothing keeps them from coming back, also if that flow has ended.
    """
    if not (ours.active_active and ours.clusters):
        return None
    topics = statement.old & ours.remotes.keys() & set(ours.not_from_end)
    return min((topic for topic in topics if ours.clusters[1] in statement.comes_from(topic)), default=None)


def copied_before(ours: OwnFlow, statement: Statement) -> str | None:
    """A topic that is new to us, and that a flow to our target has copied from our source to the same remote topic.

    Without the mark, the partitions would be blocked, because their remote ones have records but no position of ours.
    With it, such records count as those of local programs, and would be copied a second time.
    """
    if not (ours.active_active and ours.clusters) or statement.clusters != ours.clusters:
        return None
    return min((name for name in ours.new if statement.remotes.get(name) == ours.remotes[name]), default=None)


def _copied_twice(ours: OwnFlow, statement: Statement) -> str | None:
    if not ours.clusters or statement.clusters[:1] != ours.clusters[:1] or statement.service_id in ours.siblings:
        return None
    return min(statement.remotes.keys() & ours.remotes.keys(), default=None)


def is_relevant(ours: OwnFlow, other: OtherFlow) -> bool:
    """True if it matters whether the other flow is alive: it writes topics that we copy, or it conflicts with ours."""
    feeds = other.at_source and not other.statement.written.isdisjoint(ours.remotes)
    return feeds or bool(conflict(ours, other))


def has_unknown_origin(ours: OwnFlow, other: OtherFlow) -> bool:
    """True if the other flow writes topics that we copy but, as an older mirror does, not where from."""
    return other.at_source and not other.statement.clusters and not other.statement.written.isdisjoint(ours.remotes)


def lineage(ours: OwnFlow, others: Iterable[OtherFlow]) -> Lineage:
    """The clusters that each of our remote topics comes from.

    These are our source and, for topics of the source that other live flows write, the clusters that those flows name.
    A flow that conflicts with ours is left out: one of the two does not run. Otherwise an announcement that comes late
    would make our plan look incomplete, and we would give way to it.
    """
    if not ours.clusters:
        return Lineage()
    found = {topic: {ours.clusters[0]} for topic in ours.remotes}
    for other in others:
        if other.at_source and other.alive and not conflict(ours, other):
            for topic in other.statement.written & found.keys():
                found[topic].update(other.statement.comes_from(topic))
    return Lineage(ours.clusters, {ours.remotes[topic]: tuple(sorted(ids)) for topic, ids in found.items()})


class Ruling(NamedTuple):
    """The conflict that keeps us from copying. If `gives_way`, we withdraw our announcement and stop our plan."""

    conflicting: ConflictingFlow
    gives_way: bool


def rule(ours: Key, conflicting_flows: Sequence[ConflictingFlow], new: bool, announced: bool) -> Ruling | None:
    """Decide whether we may copy: None if we may, or if we have not `announced` yet and may do so.

    `new` is True if our current plan lacks some of what we want to copy. If it lacks nothing, flows that have only
    announced give way to us, because our plan counts for more than their announcement. So does then a service that is
    to take the place of one that is silent: it will see our plan.
    """
    alive = [each for each in conflicting_flows if each.other.alive and (new or not each.other.by_successor)]
    for conflicting in alive:
        if conflicting.other.copies or (new and conflicting.other.key < ours):
            return Ruling(conflicting, True)
    return Ruling(alive[0], False) if alive and new and announced else None


class Note(NamedTuple):
    """A problem, or something that cannot be determined, and what to do about it. For people."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def refusal(ours: OwnFlow, conflicting: ConflictingFlow) -> Note:
    """The note that explains why our flow does not run."""
    return Note(
        _both(ours, conflicting),
        f"nothing is copied until that flow is stopped, or has been silent for {duration(ALIVE)}: stop one of the two "
        "for good, or give them topics that do not overlap",
    )


def old_copies_refusal(ours: OwnFlow, topic: str, other: str) -> Note:
    """The note that explains why a flow with the mark does not run: `other` has copied `topic` without it.

    A reload can't change `start` of a topic that the flow has already.
    """
    remedy = f"set start: latest for {topic} in topic_settings of flow {ours.name} and start its service again"
    if topic in ours.resumed:
        remedy = (
            f"flow {ours.name} would go on at its position, whatever start says: give {ours.source} a new alias in it, "
            f"with a new group and start: latest for {topic}"
        )
    return Note(
        f"flow {ours.name}: records of {topic} on {ours.source} would come back to {ours.target}, because flow {other} "
        "has copied them before it had active_active: true",
        f"{remedy}, or delete {topic} on {ours.source}",
    )


def copied_before_refusal(ours: OwnFlow, topic: str, other: str) -> Note:
    """The note that explains why a flow with the mark does not run: the ended flow `other` has copied `topic`."""
    return Note(
        f"flow {ours.name}: records of {topic} that flow {other} has copied to {ours.target} would be copied again",
        f"set start: latest for {topic} in topic_settings of flow {ours.name}, or append_to_existing: true if they are "
        "gone or may be there twice, and start its service again",
    )


def warning(ours: OwnFlow, conflicting: ConflictingFlow) -> Note:
    """The note about a conflicting flow that shows no sign of life."""
    return Note(_both(ours, conflicting), "that flow is silent, so it is ignored: don't start it again")


def _both(ours: OwnFlow, conflicting: ConflictingFlow) -> str:
    other = conflicting.other
    return f"flow {ours.name} conflicts with flow {other.name} ({other.key.topic} on {other.on}): {conflicting.why}"
