"""Says of each partition what can be adopted: what MirrorMaker has recorded, and what stands against it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mirror.commands.moved_partition import FOREIGN, MovedPartition
from mirror.model import Partition, Position
from mirror.target.connect_offsets import Recorded, Sync

AdoptOutcome = Literal["adopted", "would be adopted", "left alone", "refused"]

OURS = "it has a position of mirror's"
NOT_OURS = "the flow does not mirror it, or the source does not have it"
NOTHING = "MirrorMaker has copied nothing of it"
NEITHER = "MirrorMaker has recorded neither a position nor an offset sync"
BEYOND = "the copy is empty and ends before MirrorMaker's newest offset sync: was it created again?"
STARTS = "without a position a run begins there as `start` says"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition whose position is looked for.

    `exact`: before `recorded` everything was copied, and nothing of what comes then. Else some of that may have been.
    """

    partition: Partition
    remote: Partition
    recorded: int
    sync: Sync | None
    exact: bool


@dataclass(frozen=True, slots=True)
class AdoptResult(MovedPartition):
    """What has become of one partition. What is not known is None."""

    outcome: AdoptOutcome
    reason: str = ""
    recorded: int | None = None  # MirrorMaker's position
    position: int | None = None  # ours
    compared: int | None = None  # records before it that are the same on both sides


@dataclass(frozen=True, slots=True)
class Known:
    """What both clusters and MirrorMaker's topics say, by source partition; of logs, by remote partition."""

    remote: Mapping[Partition, Partition]  # of all partitions that the flow mirrors
    recorded: Mapping[Partition, Recorded]
    syncs: Mapping[Partition, Sync]
    positions: Mapping[Partition, Position | None]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]  # without those that have an open transaction, and those that do not exist
    existing: frozenset[Partition]  # the remote partitions that exist
    exactly_once: bool  # MirrorMaker has committed its positions in the transactions of the records


def select(known: Known) -> tuple[list[Candidate], list[AdoptResult]]:
    """The partitions whose positions are looked for, and the results of all others."""
    chosen = [_choose(partition, known) for partition in sorted(known.remote)]
    strange = [
        AdoptResult(partition, None, "left alone", NOT_OURS, found.position if not found.problem else None)
        for partition, found in sorted(known.recorded.items())
        if partition not in known.remote
    ]
    candidates = [each for each in chosen if isinstance(each, Candidate)]
    return candidates, [*(each for each in chosen if isinstance(each, AdoptResult)), *strange]


def _choose(partition: Partition, known: Known) -> Candidate | AdoptResult:
    remote, found = known.remote[partition], known.recorded.get(partition)
    sync = known.syncs.get(partition)
    outcome = _without_comparison(partition, known)
    if outcome is not None:
        recorded = found.position if found is not None and not found.problem else None
        return AdoptResult(partition, remote, *outcome, recorded)
    if found is not None:
        return Candidate(partition, remote, found.position, sync, known.exactly_once)
    assert sync is not None
    return Candidate(partition, remote, sync.upstream + 1, sync, False)


def _may_be_replaced(ours: Position, theirs: Recorded | None) -> bool:
    """True if mirror has given its position up, or if MirrorMaker has gone further since mirror has stopped."""
    further = theirs is not None and theirs.position > ours.offset and bool(ours.topic_id)
    return ours.is_handed_back or further


def _without_comparison(partition: Partition, known: Known) -> tuple[AdoptOutcome, str] | None:
    """The outcome of a partition whose position need not or can't be looked for, and why; None if it can."""
    remote, found, ours = known.remote[partition], known.recorded.get(partition), known.positions.get(partition)
    end = known.ends.get(remote)
    if ours is not None and not _may_be_replaced(ours, found):
        return ("left alone", OURS) if ours.topic_id else ("refused", FOREIGN)
    if found is None and (remote not in known.existing or end == 0):
        return "left alone", NOTHING
    problem = _problem(partition, known)
    return ("refused", problem) if problem else None


def _problem(partition: Partition, known: Known) -> str:
    """Why the position of a partition can't be looked for; "" if it can."""
    remote, found = known.remote[partition], known.recorded.get(partition)
    end = known.ends.get(remote)
    if remote not in known.existing:
        return f"MirrorMaker has a position, but the target has no {remote}"
    if end is None:
        return "the target does not tell the end of the copy, or a transaction stays open there"
    if found is None:
        return _problem_of_sync(known.syncs.get(partition), end, is_empty=end == known.starts.get(remote))
    if found.problem:
        return found.problem
    return "MirrorMaker has a position, but the copy never had a record: was it created again?" if end == 0 else ""


def _problem_of_sync(sync: Sync | None, end: int, is_empty: bool) -> str:
    """Why a sync can't stand in for a recorded position. An empty copy has nothing to compare it with."""
    if sync is None:
        had = "had records, which are gone" if is_empty else "has records"
        return f"the copy {had}, but {NEITHER}" + (f"; {STARTS}" if is_empty else "")
    return f"{BEYOND}; {STARTS}" if is_empty and sync.downstream >= end else ""
