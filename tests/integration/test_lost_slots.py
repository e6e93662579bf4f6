"""On a Spark cluster that loses executors, workers or machines, their partitions move, and no other is disturbed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.disk import CannotRun
from tests.chaos.packets import unreachable
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.spark_cluster import SparkCluster
from tests.harness.waiting import PATIENCE

PARTITIONS = 4
# Seconds: with its own values Spark would not notice before that a machine has vanished (`spark.network.timeout`). That
# mirror's values fit into the 15 s that it promises is for tests/unit/test_timing.py: a busy machine may take longer.
SPARKS_OWN = 120.0
MARGIN = 75  # records of each partition, about one second of the load

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Seen:
    """The slices' partitions, and who has claimed and copied them so far."""

    slices: tuple[frozenset[int], ...]
    claims: dict[int, list[str]]
    copiers: dict[int, list[str]]


@dataclass(frozen=True)
class Running:
    """A service on a Spark cluster that copies one topic under load."""

    pair: Pair
    topic: str
    cluster: SparkCluster
    service: Service
    load: Load

    def slices(self) -> tuple[frozenset[int], ...]:
        """The partitions of each slice of the newest plan."""
        return tuple(frozenset(each.get(self.topic, ())) for each in self.pair.newest_plan()["slices"])

    def claims(self) -> dict[int, list[str]]:
        """The tasks that have claimed each slice so far."""
        found = defaultdict[int, list[str]](list)
        for each in oracle.read(self.pair.target, f"mirror-control.{self.pair.alias}.internal")[0]:
            if (each.key or b"").startswith(b"claim/"):
                found[int((each.key or b"").split(b"/")[1])].append(json.loads(each.value or b"")["task"])
        return found

    def copiers(self) -> dict[int, list[str]]:
        """The copiers that have reported each partition so far, in the order in which they came."""
        found = defaultdict[int, list[str]](list)
        for records in oracle.read(self.pair.target, f"mirror-status.{self.pair.alias}.internal").values():
            for each in records:
                topic, _, number = (each.key or b"").decode().rpartition("/")
                copier = json.loads(each.value or b"")["incarnation"]
                if topic == self.topic and copier not in found[int(number)]:
                    found[int(number)].append(copier)
        return found

    def seen(self) -> Seen:
        """What there is now."""
        return Seen(self.slices(), self.claims(), self.copiers())

    def assert_undisturbed(self, before: Seen, index: int) -> None:
        """Check that the partitions of this slice still have the copiers that they had."""
        now, numbers = self.copiers(), before.slices[index]
        assert {number: now[number] for number in numbers} == {number: before.copiers[number] for number in numbers}

    def await_copied(self, what: str, within: float = PATIENCE) -> None:
        """Wait until each partition has records that came after this call."""
        wanted = {number: self.load.counts.committed[self.topic, number] + MARGIN for number in range(PARTITIONS)}

        def copied() -> bool:
            positions = self.service.positions(self.topic)
            return all((positions.get(number) or 0) > count for number, count in wanted.items())

        self.service.wait_for(f"every partition copied {what}", copied, within)

    def has_spread(self) -> bool:
        """True if two executors have a task each, and each slice of the plan has partitions."""
        busy = [workers for workers in self.cluster.executors().values() if workers]
        return len(busy) == 2 and [bool(each) for each in self.slices()] == [True, True]

    def busy(self) -> int:
        """The process id of an executor that has a task."""
        return min(pid for pid, workers in self.cluster.executors().items() if workers)


@contextmanager
def running(pair: Pair, directory: Path, workers: int, **flow: object) -> Iterator[Running]:
    """A service whose two slices run on a Spark cluster. In the end nothing is lost or doubled."""
    topic = pair.topic("slots", PARTITIONS)
    with SparkCluster(directory, workers) as cluster:
        service = Service(pair.settings(flow, spark=cluster.settings), directory)
        with Load(pair.source, {topic: PARTITIONS}, rate=75 * PARTITIONS) as load, service:
            found = Running(pair, topic, cluster, service, load)
            service.wait_for("a task on each of two executors", found.has_spread, 2 * PATIENCE)
            found.await_copied("at first")
            yield found
            load.stop()
            pair.await_same(topic)
            assert service.terminate() == 0, service.tail()
            said = [line for line in service.noise if "Lost executor" in line]
            assert not said, "mirror's own log says that tasks were lost"
    pair.assert_settled(topic)


def test_what_is_lost_moves_and_interrupts_no_other_task(pair: Pair, tmp_path: Path) -> None:
    with running(pair, tmp_path, workers=2, tasks_max=2) as run:
        an_executor_is_lost(run)  # its worker starts another one
        a_worker_is_lost(run)  # and no slot is free, until there is another worker
        a_machine_vanishes(run)  # and no slot is free, until it comes back


def an_executor_is_lost(run: Running) -> None:
    """Another task begins, with the same partitions."""
    before, executor = run.seen(), run.busy()
    run.cluster.kill(executor)
    run.await_copied("after an executor was lost")
    assert_comes_back(run, before, executor)


def a_worker_is_lost(run: Running) -> None:
    """The other task copies everything, until another worker has a slot. Spark learns of it by closed connections."""
    before, executor = run.seen(), run.busy()
    run.cluster.kill_worker(executor)
    run.await_copied("after a worker was lost")
    assert_has_moved(run, before)
    run.cluster.add_worker()
    assert_comes_back(run, before, executor)


def a_machine_vanishes(run: Running) -> None:
    """The other task copies everything, until the machine is there again."""
    before, executor = run.seen(), run.busy()
    with vanished(run, executor):
        run.await_copied("after a machine had vanished", SPARKS_OWN)
        assert_has_moved(run, before)
    assert_comes_back(run, before, executor)


@contextmanager
def vanished(run: Running, executor: int) -> Iterator[None]:
    """Meanwhile the machine does nothing, closes no connection and, where packets can be dropped, gets none."""
    with run.cluster.suspended(executor) as processes, ExitStack() as network:
        with suppress(CannotRun):
            network.enter_context(unreachable(processes))
        yield


def assert_has_moved(run: Running, before: Seen) -> None:
    """No slot is free, so the other task has the partitions of the lost one, and those that it had notice nothing."""
    (index,) = [index for index, each in enumerate(run.slices()) if not each]
    assert len(run.slices()) == 2 and run.claims() == before.claims, "no other task has begun"
    run.assert_undisturbed(before, 1 - index)


def assert_comes_back(run: Running, before: Seen, executor: int) -> None:
    """Another executor has a task for the slice, with the partitions that it had, and the other slice notices nothing.

    While there is no other executor yet, the other slice may have these partitions, too.
    """

    def has_come_back() -> bool:
        return run.claims() != before.claims and run.has_spread() and run.slices() == before.slices

    run.service.wait_for("another task has its slice", has_come_back, 2 * PATIENCE)  # an executor starts
    run.service.wait_for("the old executor has ended", lambda: executor not in run.cluster.executors())
    (index,) = [index for index, each in run.claims().items() if each != before.claims[index]]

    def has_new_copiers() -> bool:
        """The one that had these partitions meanwhile may read the plan late."""
        now = run.copiers()
        return all(now[each][-1] not in before.copiers[each] for each in before.slices[index])

    run.service.wait_for("the new task has its partitions", has_new_copiers)
    run.await_copied("by the new task, too")
    run.assert_undisturbed(before, 1 - index)
