"""The measurements, each over all systems in turn and in several rounds."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from mirror.java import KAFKA_VERSION
from mirror.local_kafka import LocalCluster
from tests.bench import catch_up, live
from tests.bench.catch_up import Load
from tests.bench.far import FarAway
from tests.bench.systems import SYSTEMS, Job, System, Usage
from tests.harness import topics
from tests.harness.waiting import until

Result = dict[str, object]
WARM_UP, MEASURED = 15.0, 30.0  # seconds; JVMs compile what is hot in the first ones


class Bench:
    """A pair of clusters, and what is measured between them."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, far: FarAway, directory: Path, systems: Sequence[str]
    ) -> None:
        self._source = source
        self._target = target
        self._far = far
        self._directory = directory
        self._systems = systems
        self._warm = False

    def job(self, partitions: dict[str, int], **more: str) -> Job:
        """A job between the two clusters."""
        return Job.new(self._source, self._target, self._directory, partitions, **more)

    @property
    def _live_systems(self) -> list[str]:
        """Those that are measured with live records; the tuning is for throughput alone."""
        return [name for name in self._systems if name in ("mirror", "mm2")]

    def _each(
        self, measure: str, rounds: int, one: Callable[[str], Result], systems: Sequence[str]
    ) -> Iterator[Result]:
        for number in range(rounds):
            for name in systems:
                at = {"measure": measure, "round": number + 1, "system": name}
                try:
                    yield {**at, **one(name)}
                except AssertionError as error:
                    yield {**at, "failed": str(error)}

    def catch_up(self, load: Load, rounds: int, systems: Sequence[str] | None = None) -> Iterator[Result]:
        """Throughput, memory, CPU and time to the first record."""
        if topics.partitions(self._source.bootstrap, load.topic) == 0:
            topics.create(self._source.bootstrap, load.topic, load.partitions)
            catch_up.fill(self._source.bootstrap, load)
        if not self._warm:  # the brokers' JVMs: or whoever comes first would pay for it
            self._warm = True
            list(self.catch_up(load, 1, [name for name in self._systems if name != "mm2"]))

        def one(name: str) -> Result:
            job = self.job({load.topic: load.partitions}, compression=load.compression)
            try:
                return catch_up.measure(SYSTEMS[name](job), load)
            finally:
                topics.delete(self._target.bootstrap, job.remote(load.topic))

        yield from self._each("catch-up", rounds, one, systems or self._systems)

    def latency(self, rate: int, rounds: int, *, busy: Load | None = None, far: bool = False) -> Iterator[Result]:
        """Percentiles at a steady rate over 4 partitions, perhaps while another topic catches up, or far away."""
        if not self._warm:
            self._warm = True
            list(self.latency(1_000, 1))

        def one(name: str) -> Result:
            job, path = self._live(name, rate, busy)
            if far:
                job = replace(job, through=self._far.bootstrap)
            with SYSTEMS[name](job) as system:
                samples = live.observe(path, rate, lambda: time.sleep(WARM_UP + MEASURED), self._arrived(path))
                usage = Usage(system)
                usage.look(0)
            end = samples[-1][0]
            found: Result = {"rate": rate, "busy": busy is not None, "delay_ms": 2000 * self._far.delay if far else 0}
            return {**found, **live.percentiles(samples, since=end - MEASURED), "memory_bytes": usage.peak}

        yield from self._each("latency", rounds, one, self._live_systems)

    def _live(self, name: str, rate: int, busy: Load | None = None) -> tuple[Job, live.Path]:
        topic = f"live-{rate}-{time.monotonic_ns()}"
        topics.create(self._source.bootstrap, topic, 4)
        wanted = {topic: 4}
        if busy is not None:
            wanted[busy.topic] = busy.partitions
        job = self.job(wanted)
        return job, live.Path(self._source.bootstrap, topic, self._target.bootstrap, job.remote(topic), 4)

    def _arrived(self, path: live.Path) -> Callable[[], bool]:
        return lambda: topics.partitions(path.target, path.remote) > 0

    def pauses(self, rounds: int, rate: int = 1000) -> Iterator[Result]:
        """What running partitions feel when a topic is added, and when another node takes over after a kill."""

        def one(name: str) -> Result:
            job, path = self._live(name, rate)
            job = replace(job, pattern=f"{next(iter(job.topics))}.*")
            moments: list[float] = []
            system = SYSTEMS[name](job)

            def events() -> None:
                time.sleep(WARM_UP)
                moments.append(time.monotonic())
                time.sleep(10)
                moments.append(time.monotonic())
                added = f"{path.topic}-added"
                topics.create(self._source.bootstrap, added, 4)
                until("the added topic", lambda: topics.partitions(path.target, job.remote(added)) > 0, 60)
                time.sleep(10)
                moments.append(time.monotonic())
                time.sleep(2)  # what was written by then has come when the kill does
                moments.append(time.monotonic())
                system.kill()
                system.start()
                self._await_copying(path, rate)
                moments.append(time.monotonic())

            with system:
                samples = live.observe(path, rate, events, self._arrived(path))
            steady, added, settled, killed, end = moments
            return {
                "rate": rate,
                "steady": live.percentiles(samples, steady, added),
                "topic_added": live.percentiles(samples, added, settled),
                "after_kill": live.percentiles(samples, killed, end),
            }

        yield from self._each("pauses", rounds, one, self._live_systems)

    def _await_copying(self, path: live.Path, rate: int) -> None:
        """Until as much has come as is written in a few seconds, and a little longer for what has piled up."""
        here = catch_up.Count(path.target, path.remote, path.partitions)
        here.now()
        before = here.now()
        until("the copy goes on", lambda: here.now() > before + 5 * rate, 180)
        time.sleep(5)

    def partitions(self, counts: Sequence[int]) -> Iterator[Result]:
        """Memory of many partitions, idle and after each has had a record, and what being idle costs."""

        def one(name: str, count: int) -> Result:
            topic = f"many-{count}-{time.monotonic_ns()}"
            topics.create(self._source.bootstrap, topic, count)
            job = self.job({topic: count})
            remote = job.remote(topic)
            load = Load(records=count, partitions=count)
            with SYSTEMS[name](job) as system:
                until("all partitions", lambda: topics.partitions(self._target.bootstrap, remote) == count, 180)
                time.sleep(15)
                idle = self._steady(system)
                catch_up.fill(self._source.bootstrap, replace(load, name=topic))
                here = catch_up.Count(self._target.bootstrap, remote, count)
                until("one record each", lambda: here.now() >= count, 300)
                time.sleep(10)
                active = self._steady(system)
            for cluster, gone in ((self._source, topic), (self._target, remote)):
                topics.delete(cluster.bootstrap, gone)
            return {"partitions": count, "idle": idle, "active": active}

        for count in counts:
            yield from self._each("partitions", 1, lambda name, n=count: one(name, n), ["mirror", "mm2"])  # type: ignore[misc]

    def _steady(self, system: System) -> Result:
        before, begun = Usage(system), time.monotonic()
        before.look(0)
        time.sleep(10)
        after = Usage(system)
        after.look(0)
        found = [p.num_threads() for p in system.processes()]
        share = (after.cpu - before.cpu) / (time.monotonic() - begun)
        return {"memory_bytes": after.peak, "cores": round(share, 3), "threads": sum(found), "processes": len(found)}


def machine() -> Result:
    """What it ran on, and when."""
    cores, memory = os.cpu_count() or 0, psutil.virtual_memory().total
    python = ".".join(platform.python_version_tuple()[:2])
    words = (
        f"on {time.strftime('%Y-%m-%d')} with {cores} cores and {memory / 2**30:.0f} GiB for everything, "
        f"Kafka {KAFKA_VERSION}, Python {python}"
    )
    return {"words": words, "cores": cores, "memory_bytes": memory, "kafka": KAFKA_VERSION}
