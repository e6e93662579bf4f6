"""Says of each partition whether its position can be handed back to MirrorMaker, and what that changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from mirror.commands.moved_partition import FOREIGN, MovedPartition
from mirror.control.decisions import LOST_KINDS, Incident, doubt, explain
from mirror.control.orders import Orders, is_paused
from mirror.control.plan import Plan
from mirror.model import Partition, Position, remote_partitions
from mirror.naming import ReplicationPolicy, some_of
from mirror.settings import Flow
from mirror.target.connect_offsets import Recorded

HandBackOutcome = Literal["handed back", "would be handed back", "left alone", "refused"]

NOTHING = "mirror has copied nothing of it"
STAYS = "mirror has no position of it: MirrorMaker's own stays"
DONE = "it was handed back before"
AHEAD = (
    "MirrorMaker's own position is further: it has copied since, or mirror was told to go back; "
    "--overwrite takes mirror's"
)
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

FROM_START = "mirror stands at offset 0: MirrorMaker begins as its consumer's auto.offset.reset says"
PAUSED = "mirror has paused it, MirrorMaker copies it"
RETIRED = "mirror does not copy its topic now, MirrorMaker does if its own topics say so"
UNSURE = "exactly_once is false and mirror was not stopped in order: its last batch may come a second time"
LOST = "mirror was blocked, because the source has lost what comes next: MirrorMaker passes over that without a word"
REFUSED = "mirror was blocked, because the target refuses the next record: MirrorMaker's task fails at it"


@dataclass(frozen=True, slots=True)
class HandBackResult(MovedPartition):
    """What has become of one partition. What is not known is None."""

    outcome: HandBackOutcome
    reason: str = ""
    recorded: int | None = None  # MirrorMaker's position as it was
    position: int | None = None  # ours


@dataclass(frozen=True, slots=True)
class Known:
    """What the target says. All is by source partition."""

    plan: Plan
    positions: Mapping[Partition, Position | None]
    problems: Mapping[Partition, str]  # why there is no position to rely on
    reported: Mapping[Partition, Position]
    incidents: Mapping[Partition, Incident]  # as reported last
    recorded: Mapping[Partition, Recorded]  # MirrorMaker's
    orders: Orders


def select(flow: Flow, known: Known, overwrite: bool) -> list[HandBackResult]:
    """The result of each partition. Those that can be handed back say "would be"."""
    remotes = remote_partitions(known.plan.known)  # the retired ones, too
    found = [_choose(flow, each, remote, known, overwrite) for each, remote in remotes.items()]
    strange = [
        HandBackResult(each, None, "left alone", STAYS, said.position if not said.problem else None)
        for each, said in sorted(known.recorded.items())
        if each not in remotes
    ]
    return [*found, *strange]


def _choose(flow: Flow, partition: Partition, remote: Partition, known: Known, overwrite: bool) -> HandBackResult:
    theirs, ours = known.recorded.get(partition), known.positions.get(partition)
    recorded = theirs.position if theirs is not None and not theirs.problem else None
    if partition in known.problems:
        return HandBackResult(partition, remote, "refused", known.problems[partition], recorded)
    if ours is not None and ours.is_handed_back:
        return HandBackResult(partition, remote, "left alone", DONE, recorded, ours.offset)
    problem = _problem(flow, partition, ours, known)
    if problem:
        return HandBackResult(partition, remote, "refused", problem, recorded)
    if ours is None:
        return HandBackResult(partition, remote, "left alone", NOTHING if theirs is None else STAYS, recorded)
    if recorded is not None and recorded > ours.offset and not overwrite:
        return HandBackResult(partition, remote, "refused", AHEAD, recorded, ours.offset)
    notes = "; ".join(_notes(flow, partition, ours, known))
    return HandBackResult(partition, remote, "would be handed back", notes, recorded, ours.offset)


def _problem(flow: Flow, partition: Partition, ours: Position | None, known: Known) -> str:
    """Why the position can't be believed; "" if it can."""
    topic = known.plan.known[partition.topic]
    # Without a position nothing is handed back, so it does not matter whether the remote partition has records.
    incident = doubt(ours, known.reported.get(partition), topic, lambda: False)
    if incident is not None:
        return FOREIGN if incident.kind == "position_foreign" else explain(incident, ours, topic, flow.group)
    if ours is not None and ours.topic_id != topic.topic_id:
        return f"its position {ours.offset} belongs to a source topic that was deleted"
    return ""


def _notes(flow: Flow, partition: Partition, ours: Position, known: Known) -> Iterable[str]:
    """What is not exact, and what MirrorMaker does differently from mirror."""
    if not flow.exactly_once and not known.plan.stop:
        yield UNSURE
    if ours.offset == 0:
        yield FROM_START
    if is_paused(known.orders, partition):
        yield PAUSED
    if partition.topic not in known.plan.topics:
        yield RETIRED
    incident = known.incidents.get(partition)
    if incident is not None and incident.kind in LOST_KINDS:
        yield REFUSED if incident.kind == "refused" else LOST


def needed(flow: Flow) -> list[str]:
    """The properties that MirrorMaker needs to write to the same topics and to copy the same records as mirror."""
    policy = ReplicationPolicy.of(flow)
    template = policy.template
    if policy.asks is not None:
        names = [
            f"{flow.name}.replication.policy.class = (a class of yours that does what {flow.replication_policy} does)"
        ]
    elif template.separator is not None:
        names = [f"replication.policy.separator = {template.separator}"] if template.separator != "." else []
    else:
        yours = f"(a class of yours that names remote topics {flow.remote_topic})"
        names = [f"{flow.name}.replication.policy.class = {IDENTITY if template.is_mirrormakers else yours}"]
    own_names = [f"{name}: {own.remote_topic}" for name, own in flow.topic_settings.items() if own.remote_topic]
    if own_names:
        names.append(f"(a policy class of yours that names the remote topics of {some_of(own_names)})")
    return [
        *names,
        f"{flow.name}.offset-syncs.topic.location = target",
        f"{flow.source.alias}.consumer.isolation.level = read_committed",
    ]
