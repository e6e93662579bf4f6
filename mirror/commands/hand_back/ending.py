"""Makes sure that mirror's tasks copy nothing more, and loads the positions.

It waits until no task reports, and fences each partition's owner. command.py ends the plan between the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing

from confluent_kafka import Consumer

from mirror.control.control_topics import StatusReader
from mirror.control.plan import Plan
from mirror.errors import MirrorError
from mirror.kafka.clients import group_reader
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Partition, Position
from mirror.settings import Flow
from mirror.target.fencing import fence
from mirror.target.position_reader import PositionReader
from mirror.text import duration
from mirror.timing import NO_SERVICE

LEFTOVERS = 10.0  # seconds for which tasks may still report after their service was killed
POLL = 0.2  # seconds

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


def hints(
    flow: Flow, remotes: Mapping[Partition, Partition]
) -> tuple[dict[Partition, Position | None], dict[Partition, str]]:
    """The positions as they are committed now, without fencing anybody; otherwise as `load`."""
    refused: set[tuple[str, int]] = set()
    with closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions:
        found = positions.hints(remotes.values(), refused)
    problems = {each: "the target does not tell its position" for each, at in remotes.items() if at in refused}
    return {each: found.get(at) for each, at in remotes.items()}, problems
