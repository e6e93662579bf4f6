"""Flows that move between MirrorMaker 2 and mirror, with and without exactly-once, each with both policies.

One MirrorMaker has all four. The target has two aliases for it, because exactly-once is a setting of the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import yaml

from mirror.commands.adopt.command import Adoption, Options, adopt
from mirror.commands.adopt.selection import AdoptResult
from mirror.commands.hand_back import command as back
from mirror.commands.hand_back.command import HandBack, hand_back
from mirror.config.load import load
from tests.harness import configuration, mirror_maker, oracle, topics
from tests.harness.load import mixed
from tests.harness.mirror_maker import IDENTITY, MirrorMaker
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.waiting import until


@dataclass(frozen=True)
class Moving:
    """A flow that MirrorMaker and mirror copy in turn."""

    pair: Pair
    to: str  # MirrorMaker's alias of the target
    identity: bool
    topic: str
    file: Path
    exactly_once: bool  # in mirror, unless `own` says otherwise
    own: Mapping[str, object] = field(hash=False)  # further keys of the flow

    def remote(self) -> str:
        """The remote topic."""
        return self.topic if self.identity else self.pair.remote(self.topic)

    def settings(self) -> configuration.Settings:
        """Mirror's configuration."""
        policy = "identity" if self.identity else "default"
        return self.pair.settings({"replication_policy": policy, "exactly_once": self.exactly_once, **self.own})

    def changed(self, **own: object) -> Moving:
        """The same flow with other keys in mirror's configuration, and in its file."""
        other = replace(self, own={**self.own, **own})
        other.file.write_text(yaml.safe_dump(other.settings()))
        return other

    def produce(self, first: int, count: int) -> None:
        """Numbered records to both partitions."""
        for partition in (0, 1):
            records = [mixed(2 * n + partition) for n in range(first, first + count)]
            self.pair.produce(self.topic, *records, partition=partition)

    def source(self, isolation: str = "read_committed") -> oracle.Records:
        """What the source has."""
        return oracle.read(self.pair.source, self.topic, isolation)

    def copy(self) -> oracle.Records:
        """What the target has."""
        return oracle.read(self.pair.target, self.remote())

    def await_copied(self, count: int) -> None:
        """Wait until the target has so many records."""
        wait = f"{count} records in {self.remote()}"
        until(f"{self.remote()} exists", lambda: topics.partitions(self.pair.target, self.remote()) == 2)
        with closing(oracle.Reader(self.pair.target, self.remote())) as reader:
            until(wait, lambda: oracle.count(reader.to_end()) >= count)

    def position(self, partition: int) -> int | None:
        """Mirror's position."""
        return oracle.committed_position(self.pair.target, self.pair.group, self.remote(), partition)

    def next_offsets(self) -> dict[int, int]:
        """The offsets after the last copied records, found by the contents of both sides, independently of mirror."""
        found = {}
        for partition, records in self.copy().items():
            last = records[-1].content
            here = self.source("read_uncommitted")[partition]
            (found[partition],) = [record.offset + 1 for record in here if record.content == last]
        return found

    def adopt(self, quiet: float = 1.0, named: bool = False) -> Adoption:
        """What the command does, without a process of its own. If `named`, it is told of group and topic."""
        group, topic = f"{self.pair.alias}-mm2", f"mm2-offsets.{self.pair.alias}.internal"
        options = Options("MirrorSourceConnector", None, None, None, 1_000, quiet, dry_run=False)
        options = replace(options, worker_group=group, offsets_topic=topic) if named else options
        return adopt(load(self.file).flows[0], options, StringIO())

    def hand_back(self, quiet: float = 1.0, group: str | None = None, tasks: int | None = None) -> HandBack:
        """What the command does, without a process of its own.

        `group` and `tasks` are what it is told of MirrorMaker's workers.
        """
        return hand_back(load(self.file).flows[0], back.Options(group, tasks, quiet, False, False), StringIO())

    def ours(self, found: Adoption) -> dict[int, AdoptResult]:
        """What was said of this topic's partitions."""
        return {each.partition.partition: each for each in found.results if each.partition.topic == self.topic}


class World:
    """The four flows, and MirrorMaker's properties for some of them."""

    def __init__(
        self, name: str, source: str, target: str, directory: Path, own: Mapping[str, object] | None = None
    ) -> None:
        """`name` tells it from others on the same clusters; `own` has further keys of each flow."""
        self.directory, self._bootstraps, self._world, self._own_keys = directory, (source, target), name, own or {}
        kinds = [("eos", False), ("eos", True), ("alo", False), ("alo", True)]
        self.all = [self.flow(f"{to}{'i' if identity else 'd'}", to, identity) for to, identity in kinds]

    def flow(self, name: str, to: str, identity: bool) -> Moving:
        """One more flow, which is not among `all`. `to` is MirrorMaker's alias of the target, "eos" or "alo"."""
        pair = Pair(*self._bootstraps, f"{self._world}{name}", f"{self._world}-{name}-")
        exactly_once = to == "eos" or identity
        file = self.directory / f"{name}.yaml"
        moving = Moving(pair, to, identity, pair.topic("orders", 2), file, exactly_once, self._own_keys)
        moving.file.write_text(yaml.safe_dump(moving.settings()))
        return moving

    def mirror_maker(self, *some: Moving, committed: bool = False, checkpoints: Moving | None = None) -> MirrorMaker:
        """One that copies these flows. If `committed`, no flow copies records of aborted transactions.

        It writes `checkpoints` of the groups of one flow.
        """
        source, target = self._bootstraps
        clusters = {each.pair.alias: source for each in some} | {each.to: target for each in some}
        own = {each: self._own(each) for each in some}
        properties = mirror_maker.flows(clusters, {(each.pair.alias, each.to): own[each] for each in some})
        # Its positions are recorded when it stops, and not before.
        properties |= {"alo.offset.flush.interval.ms": 3_600_000, "eos.exactly.once.source.support": "enabled"}
        properties |= {f"{each.to}.session.timeout.ms": 6_000 for each in some}
        readers = [each.pair.alias for each in some if committed or each.to == "eos"]
        properties |= {f"{alias}.consumer.isolation.level": "read_committed" for alias in readers}
        if checkpoints is not None:
            flow = f"{checkpoints.pair.alias}->{checkpoints.to}"
            properties |= {f"{flow}.emit.checkpoints.interval.seconds": 1, f"{flow}.refresh.groups.interval.seconds": 1}
        return MirrorMaker(properties, self.directory)

    def _own(self, moving: Moving) -> dict[str, object]:
        policy = {"replication.policy.class": IDENTITY} if moving.identity else {}
        location = {"offset-syncs.topic.location": "target"} if moving.identity else {}
        return {"topics": f"{moving.pair.prefix}.*", **policy, **location}

    def service(self) -> Service:
        """Mirror with all flows."""
        together = configuration.together(*(each.settings() for each in self.all))
        return Service(
            {**together, "spark": {"master": "local[4]"}, "drain_timeout": configuration.LONG_DRAIN}, self.directory
        )
