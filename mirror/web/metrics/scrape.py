"""Collects the metrics of the service, its clusters and its flows at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from mirror.model import Partition
from mirror.status.cluster_status import ClusterStatus
from mirror.status.configuration import ConfigurationStatus
from mirror.status.flow_status import FlowStatus
from mirror.web.metrics.clusters import ClusterMetrics
from mirror.web.metrics.flows import CoverageMetrics, FlowMetrics, ProofMetrics
from mirror.web.metrics.labels import PARTITION, TOPIC
from mirror.web.metrics.partitions import PartitionCounters, PartitionGauges, Summed, TopicMetrics
from mirror.web.metrics.rounds import AclMetrics, ConfigMetrics, GroupMetrics
from mirror.web.metrics.service import ServiceMetrics


class Metrics(Collector):
    """Collects the metrics of all flows and clusters at each scrape.

    With `labels` "topic", partitions are summed up by topic.
    """

    def __init__(
        self,
        flows: Iterable[FlowStatus],
        labels: Literal["partition", "topic"] = "partition",
        configuration: ConfigurationStatus | None = None,
        clusters: Iterable[ClusterStatus] = (),
        http_expiry: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`http_expiry` says when the HTTP server's certificate expires. It is asked at each scrape."""
        self._flows = list(flows)
        self._configuration = configuration or ConfigurationStatus()
        self._clusters = list(clusters)
        self._http_expiry = http_expiry
        self._fine = PARTITION if labels == "partition" else TOPIC
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def describe(self) -> Iterable[Metric]:
        """No metrics: the registry must not collect before the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics; docs/metrics.md lists them."""
        of_flows = (FlowMetrics(), CoverageMetrics(), ProofMetrics(), GroupMetrics(), ConfigMetrics(), AclMetrics())
        topics, of_partitions = TopicMetrics(), (PartitionCounters(self._fine), PartitionGauges(self._fine))
        clusters, service = ClusterMetrics(), ServiceMetrics(self._configuration.view)
        for cluster in self._clusters:
            clusters.add(cluster)
        clusters.add_http(self._http_expiry())
        for status in self._flows:
            for of_flow in of_flows:
                of_flow.add(status)
            for labels, group in _grouped(status, TOPIC).items():
                topics.add(labels, group, status.throttles.get(labels[-1]))
            for labels, group in _grouped(status, self._fine).items():
                for of_partition in of_partitions:
                    of_partition.add(labels, group)
        for families in (service, clusters, *of_flows, topics, *of_partitions):
            yield from vars(families).values()


def _grouped(status: FlowStatus, names: Sequence[str]) -> dict[tuple[str, ...], Summed]:
    groups: dict[tuple[str, ...], Summed] = {}

    def group(partition: Partition) -> Summed:
        labels = (*status.labels, partition.topic, str(partition.partition))[: len(names)]
        return groups.setdefault(labels, Summed())

    for each in status.partitions():
        group(each.report.partition).statuses.append(each)
    for partition, age in status.unreported().items():
        group(partition).unreported.append(age)
    return groups
