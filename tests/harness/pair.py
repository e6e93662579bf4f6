"""A source and a target cluster with what one service mirrors between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.harness import configuration, oracle, topics
from tests.harness.configuration import AUTO, RECORDS
from tests.harness.load import Made, produce
from tests.harness.service import TAKES_RECORDS, Service
from tests.harness.waiting import PATIENCE


@dataclass(frozen=True)
class Pair:
    """Topics whose names begin with `prefix` flow from `source` to `target`; the source is called `alias`."""

    source: str
    target: str
    alias: str
    prefix: str
    template: str = "{source}.{topic}"  # of the remote topics' names; a flow's remote_topic
    target_alias: str = "backup"
    data_path: str = RECORDS

    @property
    def group(self) -> str:
        """The position's group."""
        return configuration.group(self.alias, self.target_alias)

    @property
    def flow(self) -> str:
        """The flow's name in the log."""
        return f"{self.alias}->backup"

    def other(self, name: str) -> Pair:
        """Another flow between the same clusters, for a scenario that runs at the same time."""
        return replace(self, alias=f"{self.alias}{name}", prefix=f"{name}-{self.prefix}")

    def by(self, data_path: str) -> Pair:
        """The same flow by this data path. Whole batches have names of their own, beside what copies by records."""
        if data_path == RECORDS:
            return self
        alias, prefix = f"{self.alias}-{data_path}", f"{data_path}-{self.prefix}"
        return replace(self, alias=alias, prefix=prefix, data_path=data_path)

    def settings(self, flow: Mapping[str, Any] | None = None, **top: Any) -> configuration.Settings:
        """The configuration that mirrors them."""
        flow = {"data_path": self.data_path, **(flow or {})}
        return configuration.one_flow(
            self.source, self.target, [f"{self.prefix}.*"], alias=self.alias, flow=flow, **top
        )

    def service(self, directory: Path, flow: Mapping[str, Any] | None = None, **top: Any) -> Service:
        """A service that mirrors them, not started yet."""
        return Service(self.settings(flow, **top), directory)

    def topic(self, name: str, partitions: int = 1, **config: object) -> str:
        """Create a topic on the source; returns its whole name."""
        return topics.create(self.source, self.prefix + name, partitions, **config)

    def produce(self, topic: str, *records: Made, partition: int = 0, timestamp: int = 0, **config: object) -> None:
        """Produce to the source and wait until it stands there."""
        produce(self.source, topic, list(records), partition, timestamp, **config)

    def newest_plan(self) -> dict[str, Any]:
        """The newest plan, as the control topic has it."""
        records = oracle.read(self.target, f"mirror-control.{self.alias}.internal")[0]
        found: dict[str, Any] = json.loads([each.value for each in records if each.key == b"plan"][-1] or b"")
        return found

    def remote(self, topic: str) -> str:
        """The name of a topic on the target."""
        return self.template.format(source=self.alias, topic=topic)

    def copied(self, topic: str) -> oracle.Records:
        """What the target has of a topic now."""
        if not topics.partitions(self.target, self.remote(topic)):
            return {}
        return oracle.read(self.target, self.remote(topic))

    def await_same(self, topic: str, timeout: float = PATIENCE) -> oracle.Records:
        """Wait until the target has what the source has now, and compare; returns the source's records."""
        return oracle.await_same(self.source, self.target, topic, self.remote(topic), timeout)

    def assert_path(self, service: Service) -> None:
        """Check that a service copies in whole batches if it is to: otherwise a test says nothing of them.

        Reports come late, and a partition may be copied by records for a moment: the log says why.
        """

        def whole() -> float:
            return service.metric("mirror_data_path_partitions", source=self.alias, path="batches")

        if self.data_path == AUTO:
            why = [each["reason"] for each in service.find(TAKES_RECORDS)]
            service.wait_for(f"a partition in whole batches; some were copied by records: {why}", lambda: whole() > 0)
        else:
            assert not whole() > 0

    def assert_settled(self, topic: str) -> None:
        """Check of an idle flow: both sides are the same, the position is in its place, no transaction is open."""
        oracle.assert_same(self.source, self.target, topic, self.remote(topic))
        oracle.assert_positions(self.source, self.target, topic, self.remote(topic), self.group)
        hanging = oracle.hanging(self.target, self.remote(topic))
        assert not hanging, f"open transactions on {self.remote(topic)}: {hanging}"
