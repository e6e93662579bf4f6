"""The measurements, each over all systems in turn and in several rounds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from mirror.demo.brokers import LocalCluster
from tests.bench import catch_up, group_sync, hand_over, latency, live, many, map_cost, pauses, profile, scale
from tests.bench.catch_up import Load
from tests.bench.clusters import cluster
from tests.bench.distance import Distance
from tests.bench.encryption import encrypted
from tests.bench.job import Job
from tests.bench.systems import CANDIDATES, SYSTEMS, BatchMirror, Mirror, System, candidate
from tests.harness import topics
from tests.harness.link import Link

Result = dict[str, object]


class Bench:
    """A pair of clusters, and what is measured between them."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, link: Link, directory: Path, systems: Sequence[str]
    ) -> None:
        self.source = source
        self.target = target
        self._link = link
        self._directory = directory
        self._systems = systems
        self._warm = False

    def job(self, partitions: dict[str, int], **more: Any) -> Job:
        """A job between the two clusters."""
        return Job.new(self.source, self.target, self._directory, partitions, **more)

    @property
    def _live_systems(self) -> list[str]:
        """The systems that are measured with live records. The tuned ones are measured for throughput alone."""
        return [name for name in self._systems if name in ("mirror", "mirror-auto", "mm2")]

    @contextlib.contextmanager
    def replicated(self) -> Iterator[Bench]:
        """The same source with a target of three brokers, which have all partitions."""
        three = cluster("three", self._directory, 3, {"min.insync.replicas": 2})
        with three:
            yield Bench(self.source, three, self._link, self._directory, self._systems)

    def _each(
        self, what: Result, rounds: int, one: Callable[[str], Result], systems: Sequence[str]
    ) -> Iterator[Result]:
        for number in range(rounds):
            shift = number % max(1, len(systems))  # nobody is always the first
            for name in (*systems[shift:], *systems[:shift]):
                at = {**what, "round": number + 1, "system": name}
                try:
                    yield {**at, **one(name)}
                except AssertionError as error:
                    yield {**at, "failed": str(error)}

    def catch_up(self, load: Load, rounds: int, systems: Sequence[str], measure: str = "catch-up") -> Iterator[Result]:
        """Throughput, memory, CPU and time to the first record."""

        def one(name: str) -> Result:
            return self._copy(SYSTEMS[name], load)

        # Or whoever comes first would pay for what the brokers have still to do.
        if self._filled(load) or not self._warm:
            list(self._each({}, 1, one, [name for name in systems if not self._warm or name == "limit"]))
            self._warm = True
        yield from self._each({"measure": measure, **asdict(load)}, rounds, one, systems)

    def far(self, distance: Distance, rounds: int, systems: Sequence[str]) -> Iterator[Result]:
        """Catch-up from a cluster, or to one, that is far away."""
        self._filled(distance.load)
        far, end = (self.source, "far_source") if distance.source else (self.target, "far_target")

        def one(name: str) -> Result:
            with self._link.carries(distance.round_trip, distance.loss):
                return self._copy(SYSTEMS[name], distance.load, **{end: self._link.to(far)})

        yield from self._each({"measure": "far", **distance.told, **asdict(distance.load)}, rounds, one, systems)

    def encrypted(self, loads: Sequence[Load], rounds: int) -> Iterator[Result]:
        """Catch-up to three brokers with TLS on both clusters, and without it, by turns."""
        with encrypted(self._directory) as both:
            bench = Bench(both.source, both.target, self._link, self._directory, self._systems)
            source, target = (both.addresses[each.name] for each in (both.source, both.target))
            with_tls = {"far_source": source, "far_target": target, "security": both.security}
            for load in loads:
                yield from bench._encrypted(load, rounds, with_tls)

    def _encrypted(self, load: Load, rounds: int, with_tls: Mapping[str, Any]) -> Iterator[Result]:
        names = [name for name in self._systems if name in (Mirror.name, BatchMirror.name)]
        runs = {f"{name}{' with TLS' * tls}": (name, tls) for name in names for tls in (False, True)}

        def one(words: str) -> Result:
            name, tls = runs[words]
            return {"system": name, "tls": tls, **self._copy(SYSTEMS[name], load, **(with_tls if tls else {}))}

        self._filled(load)
        if not self._warm:
            list(self._each({}, 1, one, list(runs)))  # or whoever comes first would pay for what brokers have to do
            self._warm = True
        yield from self._each({"measure": "encrypted", **asdict(load)}, rounds, one, list(runs))

    def tuning(self, load: Load, rounds: int) -> Iterator[Result]:
        """Which tuning of MirrorMaker 2 is the best: throughput of each candidate."""
        self._filled(load)

        def one(words: str) -> Result:
            return self._copy(candidate(words), load)

        yield from self._each({"measure": "tuning"}, rounds, one, list(CANDIDATES))

    def groups(self) -> Iterator[Result]:
        """How exactly the offsets of consumer groups arrive."""
        for name in (name for name in self._systems if name in group_sync.SYSTEMS):
            job = self.job({f"groups-{name}": group_sync.PARTITIONS, f"groups-{name}-other": 1})
            for result in group_sync.measure(name, job):
                yield {"measure": "groups", "system": name, **result}

    def offset_map(self, load: Load, rounds: int) -> Iterator[Result]:
        """What the offset map costs: its bytes, and throughput with it and without."""
        for kind in map_cost.KINDS:
            yield {"measure": "map", "system": "mirror", **map_cost.measure(kind, self.job({kind.topic: 1}))}
        self._filled(load)
        systems = {each.name: each for each in (Mirror, map_cost.WithoutMap)}

        def one(name: str) -> Result:
            return self._copy(systems[name], load)

        list(self._each({}, 1, one, list(systems)))  # or whoever comes first would pay for what the brokers have to do
        yield from self._each({"measure": "map-throughput"}, rounds, one, list(systems))

    def hand_over(self, load: Load, rounds: int) -> Iterator[Result]:
        """A catch-up of whole batches that begins within one."""
        topics.create(self.source.bootstrap, load.topic, load.partitions)
        since = int(time.time() * 1000) - load.records
        catch_up.fill(self.source.bootstrap, load, since)

        def one(_: str) -> Result:
            job = self.job({load.topic: load.partitions})
            try:
                return hand_over.measure(job, load, since)
            finally:
                self._forget(job, load.topic)

        yield from self._each({"measure": "hand-over", "records": load.records}, rounds, one, [BatchMirror.name])

    def profile(self, rounds: int) -> Iterator[Result]:
        """Where a task that copies whole batches spends its time."""
        for load in profile.LOADS:
            self._filled(load)

            def one(name: str, load: Load = load) -> Result:
                job = self.job({load.topic: load.partitions})
                try:
                    return profile.measure(SYSTEMS[name](job), load)
                finally:
                    self._forget(job, load.topic)

            yield from self._each({"measure": "profile", **asdict(load)}, rounds, one, [BatchMirror.name])

    def _copy(self, system: Callable[[Job], System], load: Load, **more: Any) -> Result:
        job = self.job({load.topic: load.partitions}, compression=load.compression, **more)
        try:
            return catch_up.measure(system(job), load)
        finally:
            self._forget(job, load.topic)

    def _filled(self, load: Load) -> bool:
        """Fill the load's topic unless it is there already."""
        if topics.partitions(self.source.bootstrap, load.topic):
            return False
        topics.create(self.source.bootstrap, load.topic, load.partitions)
        catch_up.fill(self.source.bootstrap, load)
        return True

    def _forget(self, job: Job, topic: str) -> None:
        with contextlib.suppress(KafkaException):  # it may never have been created
            topics.delete(self.target.bootstrap, job.remote(topic))

    def rehearse(self, minutes: float) -> None:
        """Live records through each system in turn: a broker's JVM is at its best after ten minutes of them."""
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            list(self.latency(1_000, 1))

    def latency(self, rate: int, rounds: int, *, busy: Load | None = None, round_trip: float = 0.0) -> Iterator[Result]:
        """Percentiles at a steady rate over 4 partitions, perhaps while another topic catches up.

        `round_trip` is that to the target, in seconds; 0: it is near.
        """
        if busy is not None:
            self._filled(busy)

        def one(name: str) -> Result:
            job, path = self._live(name, rate, busy)
            link: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if round_trip:
                job = replace(job, far_target=self._link.to(self.target))
                link = self._link.carries(round_trip)
            with link:
                found = latency.measure(SYSTEMS[name](job), path, rate, busy)
            if busy is not None:
                self._forget(job, busy.topic)
            return found

        what: Result = {"measure": "latency", "rate": rate, "busy": busy is not None}
        yield from self._each({**what, "delay_ms": 1000 * round_trip}, rounds, one, self._live_systems)

    def _live(self, name: str, rate: int, busy: Load | None = None, partitions: int = 4) -> tuple[Job, live.Path]:
        topic = f"live-{rate}-{time.monotonic_ns()}"
        topics.create(self.source.bootstrap, topic, partitions)
        wanted = {topic: partitions}
        if busy is not None:
            wanted[busy.topic] = busy.partitions
        job = self.job(wanted)
        return job, live.Path(self.source.bootstrap, topic, self.target.bootstrap, job.remote(topic), partitions)

    def pauses(self, rounds: int, partitions: int, rate: int = 1000) -> Iterator[Result]:
        """What running partitions feel when a topic is added, and when another node takes over after a kill.

        Both systems may run four tasks. With 2 partitions, 4 more make mirror end its epoch and begin one with twice
        the slices; with 4 it goes on.
        """

        def one(name: str) -> Result:
            job, path = self._live(name, rate, partitions=partitions)
            job = replace(job, pattern=f"{next(iter(job.topics))}.*", slots=4)
            return pauses.measure(SYSTEMS[name](job), path, rate)

        what: Result = {"measure": "pauses", "rate": rate, "partitions": partitions}
        yield from self._each(what, rounds, one, self._live_systems)

    def partitions(self, intervals: Mapping[int, float], measure: str = "partitions") -> Iterator[Result]:
        """What so many partitions take, idle and while each gets a record in so many seconds, and how late it is."""

        def one(name: str, count: int, interval: float) -> Result:
            topic = f"many-{count}-{time.monotonic_ns()}"
            job = self.job(live.spread(topic, count))
            for each, partitions in job.topics.items():
                topics.create(self.source.bootstrap, each, partitions)
            ends = self.source.bootstrap, topic, self.target.bootstrap, job.remote(topic)
            try:
                return many.measure(SYSTEMS[name](job), live.Path(*ends, count, min(count, many.WATCHED)), interval)
            finally:
                for each in job.topics:
                    topics.delete(self.source.bootstrap, each)
                    self._forget(job, each)

        for count, interval in intervals.items():
            what: Result = {"measure": measure, "partitions": count, "interval": interval}
            yield from self._each(what, 1, partial(one, count=count, interval=interval), self._live_systems)

    def scale(self, tasks: Sequence[int], rounds: int) -> Iterator[Result]:
        """Catch-up by so many executors of a Spark cluster, each held to a tenth of a core."""
        for kind, load in scale.LOADS.items():
            self._filled(load)

            def one(count: str, kind: type[Mirror] = kind, load: Load = load) -> Result:
                job = self.job({load.topic: load.partitions})
                try:
                    return {"system": kind.name, "tasks": int(count), **scale.measure(kind, job, load, int(count))}
                finally:
                    self._forget(job, load.topic)

            yield from self._each({"measure": "scale"}, rounds, one, list(map(str, tasks)))
