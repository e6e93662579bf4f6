"""The Prometheus metrics of a flow as a whole."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mirror.control.throttle_shares import OF_FLOW
from mirror.model import SIDES
from mirror.status.flow_status import FLOW_STATES, FlowStatus
from mirror.web.metrics.labels import FLOW


class FlowMetrics:
    """How a flow runs: one series for each flow."""

    def __init__(self) -> None:
        self.state = GaugeMetricFamily(
            "mirror_flow_state", "1 for the state of the flow as this service sees it.", labels=(*FLOW, "state")
        )
        self.leader = GaugeMetricFamily("mirror_flow_leader", "1 while this service leads the flow.", labels=FLOW)
        self.generation = GaugeMetricFamily("mirror_flow_generation", "Generation of the newest plan.", labels=FLOW)
        self.tasks = GaugeMetricFamily("mirror_flow_tasks", "Spark tasks of the newest plan.", labels=FLOW)
        self.throttle = GaugeMetricFamily(
            "mirror_flow_throttle_bytes_per_second",
            "The throttle of all partitions of the flow together; no value without one.",
            labels=FLOW,
        )
        self.lost = CounterMetricFamily(
            "mirror_lost_tasks",
            "Tasks that were killed or failed and whose slice another one took over.",
            labels=FLOW,
            unit="tasks",
        )
        self.refused = GaugeMetricFamily(
            "mirror_refused_topics",
            "Remote topics that the target refuses to create or grow, that replace timestamps, or whose names are not "
            "possible.",
            labels=FLOW,
        )
        self.ignored = CounterMetricFamily(
            "mirror_ignored_reports",
            "Records of the status topic that are not reports and were ignored.",
            labels=FLOW,
            unit="reports",
        )

    def add(self, status: FlowStatus) -> None:
        """Add what is known of a flow."""
        self.refused.add_metric(status.labels, len(status.refused))
        self.lost.add_metric(status.labels, status.lost_tasks)
        self.ignored.add_metric(status.labels, status.ignored)
        for state in FLOW_STATES:
            self.state.add_metric((*status.labels, state), float(state == status.state))
        self.leader.add_metric(status.labels, float(status.leads))
        self.generation.add_metric(status.labels, status.generation)
        self.tasks.add_metric(status.labels, status.tasks)
        if OF_FLOW in status.throttles:
            self.throttle.add_metric(status.labels, status.throttles[OF_FLOW])


class CoverageMetrics:
    """What a flow selects, how much of it is on the target, and what the source may delete first."""

    def __init__(self) -> None:
        self.topics = GaugeMetricFamily(
            "mirror_flow_topics",
            "Topics that the flow selects on the source, and how many of them have a remote topic on the target.",
            labels=(*FLOW, "side"),
        )
        self.partitions = GaugeMetricFamily(
            "mirror_flow_partitions",
            "Partitions of the topics that the flow selects, and how many of them exist on the target.",
            labels=(*FLOW, "side"),
        )
        self.retired = GaugeMetricFamily(
            "mirror_retired_topics",
            "Topics that the flow has mirrored and does not mirror now, though their remote topics still exist.",
            labels=FLOW,
        )
        self.retention = GaugeMetricFamily(
            "mirror_retention_remaining_seconds",
            "Time until the source may delete a record that is not copied yet, of the flow's partition where that is "
            "first; no value without lag. Deletion by size (retention.bytes) may come earlier.",
            labels=FLOW,
            unit="seconds",
        )
        self.used = GaugeMetricFamily(
            "mirror_retention_used_ratio",
            "For which part of its topic's retention the next record has waited, of the flow's partition where it is "
            "most; from 1 on the source may delete it.",
            labels=FLOW,
            unit="ratio",
        )

    def add(self, status: FlowStatus) -> None:
        """Add what is known of a flow."""
        if status.retention is not None:
            self.retention.add_metric(status.labels, status.retention.first.seconds)
            self.used.add_metric(status.labels, status.retention.worst.used)
        if status.retired is not None:
            self.retired.add_metric(status.labels, status.retired)
        found = status.coverage
        if found is not None:
            for side, topics in zip(SIDES, (found.topics, found.remote_topics), strict=True):
                self.topics.add_metric((*status.labels, side), topics)
            for side, partitions in zip(SIDES, (found.partitions, found.remote_partitions), strict=True):
                self.partitions.add_metric((*status.labels, side), partitions)


class ProofMetrics:
    """What proves that a flow copies: `mirror verify` and the canary."""

    def __init__(self) -> None:
        self.verified_at = GaugeMetricFamily(
            "mirror_verify_timestamp_seconds",
            "When the last mirror verify of the whole flow ended; no value if there was none.",
            labels=FLOW,
            unit="seconds",
        )
        self.verified = GaugeMetricFamily(
            "mirror_verify_equal",
            "1 if the last mirror verify of the whole flow has found source and target equal, else 0.",
            labels=FLOW,
        )
        self.differences = GaugeMetricFamily(
            "mirror_verify_differences",
            "Records that the last mirror verify of the whole flow has found lost, duplicated, reordered, altered or "
            "extra.",
            labels=FLOW,
        )
        self.canary_at = GaugeMetricFamily(
            "mirror_canary_timestamp_seconds",
            "When the last canary that has arrived on the target was written; before the first one, when the flow "
            "leader began to write them. No value without canary.",
            labels=FLOW,
            unit="seconds",
        )
        self.canary = GaugeMetricFamily(
            "mirror_canary_seconds",
            "From writing the last canary on the source until it was read on the target, by the service's clock.",
            labels=FLOW,
            unit="seconds",
        )

    def add(self, status: FlowStatus) -> None:
        """Add what is known of a flow."""
        if status.verified is not None:
            self.verified_at.add_metric(status.labels, status.verified.at)
            self.verified.add_metric(status.labels, float(status.verified.equal))
            self.differences.add_metric(status.labels, status.verified.differences)
        if status.canary is not None:
            self.canary_at.add_metric(status.labels, status.canary.at)
            if status.canary.seconds is not None:
                self.canary.add_metric(status.labels, status.canary.seconds)
