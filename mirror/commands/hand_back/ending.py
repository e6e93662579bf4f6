"""Makes sure that mirror's tasks copy nothing more, and loads the positions.

It waits until no task reports, and fences each partition's owner. command.py ends the plan between the two. At the end
it marks the positions as handed back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from confluent_kafka import Consumer

from mirror.commands.hand_back.selection import HandBackResult, Known
from mirror.control.control_topics import StatusReader
from mirror.control.plan import Plan
from mirror.errors import MirrorError
from mirror.kafka.clients import group_reader
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.fencing import commit_as_owner, fence
from mirror.target.position_reader import PositionReader
from mirror.text import duration
from mirror.timing import NO_SERVICE

LEFTOVERS = 10.0  # seconds for which tasks may still report after their service was killed
POLL = 0.2  # seconds
MOVED = "mirror's own position has changed since it was loaded: stop mirror, and hand back again"
NOT_MARKED = "mirror's own position could not be marked as handed back: do it again"

Say = Callable[[str], object]


def await_silence(flow: Flow, plan: Plan, say: Say) -> None:
    """Wait until no task has reported for NO_SERVICE seconds. Raises MirrorError if the flow runs, or ClusterAway.

    It does not wait if the plan orders the tasks to stop: a service writes such a plan when it stops. After a crash
    there is no such plan, so only the missing reports show that no task runs.
    """
    if plan.stop or not any(plan.slices):
        return
    say(f"waiting until no task has reported for {duration(NO_SERVICE)}: mirror was not stopped in order")
    began = last = time.monotonic()
    with closing(StatusReader(flow)) as reader:
        while time.monotonic() - last < NO_SERVICE:
            if reader.poll(POLL):
                last = time.monotonic()
            if last - began > LEFTOVERS:
                raise MirrorError(f"{flow.name} runs: stop mirror before its positions are handed back")


def load(
    flow: Flow, remotes: Mapping[Partition, Partition], done: Callable[[], object]
) -> tuple[dict[Partition, Position | None], dict[Partition, str]]:
    """Fence each partition's owner, and load its position. With `exactly_once: false` nobody is fenced.

    Returns the positions, and by partition the reason why a position could not be loaded.
    """
    found: dict[Partition, Position | None] = {}
    problems: dict[Partition, str] = {}
    with (
        closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions,
        closing(group_reader(flow.target, flow.group, "read_committed")) as member,
    ):
        for partition, remote in remotes.items():
            try:
                if flow.exactly_once:
                    _fence(flow, remote, positions, member)
                found[partition] = positions.load(*remote)
            except MirrorError as error:
                problems[partition] = str(error)
            done()
    return found, problems


def _fence(flow: Flow, remote: Partition, positions: PositionReader, member: Consumer) -> None:
    """Fence the owner, and wait until its transactions have ended."""
    fence(flow, transactional_id(flow, *remote), member)
    positions.await_no_open_transaction(*remote)


def give_up(
    flow: Flow, results: Sequence[HandBackResult], known: Known, done: Callable[[], object]
) -> list[HandBackResult]:
    """Mark mirror's positions as handed back, where they are. A mirror that is started later blocks these partitions.

    A service that was started meanwhile may have copied on. So each position is marked as its partition's owner does
    it, and only as it was loaded. Otherwise the partition is refused.
    """
    with (
        closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions,
        closing(group_reader(flow.target, flow.group, "read_committed")) as member,
    ):
        marked = []
        for each in results:
            ours, problem = known.positions.get(each.partition), ""
            if each.outcome == "handed back" and ours is not None:
                topic = known.plan.known[each.partition.topic]
                problem = _given_up(flow, each.partition, topic, ours, positions, member)
                done()
            marked.append(replace(each, outcome="refused", reason=problem) if problem else each)
    return marked


def _given_up(
    flow: Flow, partition: Partition, topic: Topic, ours: Position, positions: PositionReader, member: Consumer
) -> str:
    """Why a position could not be marked; "" if it is."""
    problem = ""

    def choose(now: Position | None) -> Position | None:
        nonlocal problem
        problem = "" if now == ours else MOVED
        return None if problem else ours.handed_back(topic.remote_id or ours.remote_id)

    try:
        commit_as_owner(flow, partition, topic, positions, member, choose)
    except MirrorError as error:
        problem = f"{NOT_MARKED}: {error}"
    return problem


def hints(
    flow: Flow, remotes: Mapping[Partition, Partition]
) -> tuple[dict[Partition, Position | None], dict[Partition, str]]:
    """The positions as they are committed now, without fencing anybody; otherwise as `load`."""
    refused: set[tuple[str, int]] = set()
    with closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions:
        found = positions.hints(remotes.values(), refused)
    problems = {each: "the target does not tell its position" for each, at in remotes.items() if at in refused}
    return {each: found.get(at) for each, at in remotes.items()}, problems
