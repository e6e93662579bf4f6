"""Makes sure that MirrorMaker has stopped: its workers are gone, its tasks are fenced, or the copy stands still."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from mirror.errors import MirrorError, Unsupported, WireError
from mirror.kafka.clients import group_reader
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.credentials import properties_of
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target.fencing import fence
from mirror.text import plural
from mirror.wire.transactions import is_hidden, transactional_ids

MEMBERS_MORE = 5.0  # seconds, beyond `quiet`, in which a worker that was killed has to leave: its session ends
FINAL_WITHIN = 30.0  # seconds in which transactions that were open on the copy have to end
LOOK_INTERVAL = 0.5  # seconds

Say = Callable[[str], object]


def await_no_workers(target: ClusterAdmin, group: str, quiet: float, say: Say) -> None:
    """Wait until the group of MirrorMaker's workers has no members. Raises MirrorError if it still has some.

    A worker that was killed is a member until its session ends: after ten seconds, if that is not configured.
    """
    deadline, said = time.monotonic() + quiet + MEMBERS_MORE, False
    while target.has_members(group):
        if time.monotonic() > deadline:
            raise MirrorError(f"MirrorMaker still runs: group {group} on {target.alias} has members; stop it first")
        if not said:
            say(f"waiting until MirrorMaker's workers have left group {group}")
            said = True
        time.sleep(LOOK_INTERVAL)


@dataclass(frozen=True, slots=True)
class TaskIds:
    """The transactional ids of MirrorMaker's tasks. There are none if it has run without exactly-once."""

    listed: frozenset[str]  # those that the target lists: they exist
    numbered: frozenset[str]  # of the number of tasks that the command was told; the group may have another name

    @property
    def all(self) -> list[str]:
        """Those to fence."""
        return sorted(self.listed | self.numbered)


def task_ids(flow: Flow, group: str, connector: str, tasks: int | None) -> TaskIds:
    """The transactional ids of MirrorMaker's tasks: `<group.id>-<connector>-<task>` (Worker.taskTransactionalId).

    They are those that the target lists, and the first `tasks`. Raises MirrorError if the target lists none to us
    and `tasks` is None. Brokers leave out the ids that we may not Describe, and do not say so. Then a MirrorMaker with
    exactly-once would look like one without.
    """
    numbered = frozenset(f"{group}-{connector}-{number}" for number in range(tasks or 0))
    try:
        listed = transactional_ids(properties_of(flow.target))
    except WireError as error:
        if tasks is None:
            why = "" if isinstance(error, Unsupported) else "the request failed: "
            raise MirrorError(
                f"{flow.target.alias} does not list its transactional ids: {why}{error}; give the number of "
                "MirrorMaker's tasks with --tasks, which is 0 if it has run without exactly-once"
            ) from error
        listed = set()
    found = those_of(group, connector, listed)
    if not found and tasks is None:
        _check_that_none_is_hidden(flow, f"{group}-{connector}-0")
    return TaskIds(frozenset(found), numbered)


def _check_that_none_is_hidden(flow: Flow, first: str) -> None:
    """Raise MirrorError if the target would not list to us the id of the first task."""
    try:
        hidden = is_hidden(properties_of(flow.target), first)
    except WireError as error:
        raise MirrorError(f"{flow.target.alias} does not tell who coordinates {first}: {error}") from error
    if hidden:
        raise MirrorError(
            f"{flow.target.alias} lists only transactional ids that mirror may Describe, and {first} is none of them: "
            "allow Describe and Write on MirrorMaker's transactional ids, or give the number of its tasks with "
            "--tasks, which is 0 if it has run without exactly-once"
        )


def those_of(group: str, connector: str, listed: Iterable[str]) -> set[str]:
    """Those of the ids that belong to the connector's tasks."""
    form = re.compile(re.escape(f"{group}-{connector}-") + r"(0|[1-9][0-9]{0,5})")
    return {name for name in listed if form.fullmatch(name)}


def fence_tasks(flow: Flow, ids: Collection[str], say: Say) -> None:
    """Fence MirrorMaker's tasks, and end the transactions that they have left. Raises MirrorError."""
    if not ids:
        return
    say(f"fencing {plural(len(ids), 'transactional id')} of MirrorMaker's tasks")
    with closing(group_reader(flow.target, flow.group, "read_committed")) as member:
        for name in ids:
            fence(flow, name, member)


def final_ends(target: ClusterAdmin, remote: Collection[Partition]) -> dict[Partition, int]:
    """The ends of the remote partitions, once no transaction is open there. Without those where one stays open.

    Raises ClusterAway.
    """
    deadline = time.monotonic() + FINAL_WITHIN
    while True:
        high, stable = ends(target, remote), stable_ends(target, remote)
        final = {partition: end for partition, end in stable.items() if end >= high.get(partition, end)}
        if len(final) >= len(high) or time.monotonic() > deadline:
            return final
        time.sleep(LOOK_INTERVAL)


def stable_ends(target: ClusterAdmin, remote: Iterable[Partition]) -> dict[Partition, int]:
    """The last stable offsets. Raises ClusterAway."""
    return target.offsets(dict.fromkeys(remote, OffsetSpec.latest()))


def ends(target: ClusterAdmin, remote: Iterable[Partition]) -> dict[Partition, int]:
    """The high watermarks. Raises ClusterAway."""
    return target.offsets(dict.fromkeys(remote, OffsetSpec.latest()), stable=False)


def moving(target: ClusterAdmin, before: Mapping[Partition, int], quiet: float, say: Say) -> set[Partition]:
    """The remote partitions whose ends move within `quiet` seconds. Raises ClusterAway."""
    if not before:
        return set()
    say(f"watching the ends of {plural(len(before), 'remote partition')} for {quiet:g} s")
    time.sleep(quiet)
    now = ends(target, before)
    return {partition for partition, end in before.items() if now.get(partition) != end}
