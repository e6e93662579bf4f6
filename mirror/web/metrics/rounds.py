"""The Prometheus metrics of what the flow leader does in rounds: consumer groups, topic configurations and ACLs."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mirror.status.acl_overview import acls_view
from mirror.status.config_overview import configs_view
from mirror.status.flow_status import FlowStatus
from mirror.status.group_overview import GROUP_OUTCOMES, groups_view
from mirror.web.metrics.labels import FLOW, GROUP

SERIES_MAX = 1_000  # groups of a flow that have series of their own: clients may take another group at each start
BEFORE = "; before the first one, when the flow leader began with them"


class GroupMetrics:
    """One series for each consumer group of a flow, and outcome; in all at most for SERIES_MAX groups, by name."""

    def __init__(self) -> None:
        self.lag = GaugeMetricFamily(
            "mirror_group_lag", "Records on the source that the consumer group has not read.", labels=GROUP
        )
        self.partitions = GaugeMetricFamily(
            "mirror_group_partitions",
            "Partitions of the consumer group by what became of its offset. Without a group: of all groups that "
            "have no series of their own.",
            labels=(*GROUP, "outcome"),
        )
        self.synced = GaugeMetricFamily(
            "mirror_group_synced_timestamp_seconds",
            "When all offsets of the consumer group, in topics that are mirrored, last stood on the target.",
            labels=GROUP,
            unit="seconds",
        )
        self.others = GaugeMetricFamily(
            "mirror_groups_without_series",
            f"Consumer groups that have no series of their own: all but a flow's first {SERIES_MAX:,}, by name.",
            labels=FLOW,
        )
        self.round = GaugeMetricFamily(
            "mirror_group_round_timestamp_seconds",
            f"When the last round over the consumer groups ended{BEFORE}.",
            labels=FLOW,
            unit="seconds",
        )

    def add(self, status: FlowStatus) -> None:
        """Add what the last round of a flow has found."""
        if status.groups is None:
            return
        self.round.add_metric(status.labels, status.groups.at)
        if not status.groups.has_ended:
            return
        # An empty label is none to Prometheus, so a group without a name must not have a series beside the sum.
        groups = sorted(groups_view(status.groups).groups, key=lambda group: not group.group)
        others = groups[SERIES_MAX:]
        self.others.add_metric(status.labels, len(others))
        for outcome in GROUP_OUTCOMES if others else ():
            number = sum(group.partitions_by_outcome[outcome] for group in others)
            self.partitions.add_metric((*status.labels, "", outcome), number)
        for group in groups[:SERIES_MAX]:
            labels = (*status.labels, group.group)
            if group.lag is not None:
                self.lag.add_metric(labels, group.lag)
            if group.synced_at is not None:
                self.synced.add_metric(labels, group.synced_at)
            for outcome, number in group.partitions_by_outcome.items():
                self.partitions.add_metric((*labels, outcome), number)


class ConfigMetrics:
    """The configurations of a flow's remote topics, after the last round over them."""

    def __init__(self) -> None:
        self.topics = GaugeMetricFamily(
            "mirror_topic_configs",
            "Remote topics by how their configuration stands beside that of the source topic.",
            labels=(*FLOW, "outcome"),
        )
        self.changes = CounterMetricFamily(
            "mirror_topic_config_changes",
            "Keys of remote topics' configurations that were altered.",
            labels=FLOW,
            unit="changes",
        )
        self.round = GaugeMetricFamily(
            "mirror_topic_config_round_timestamp_seconds",
            f"When the last round over the topics' configurations ended{BEFORE}.",
            labels=FLOW,
            unit="seconds",
        )

    def add(self, status: FlowStatus) -> None:
        """Add what the last round of a flow has found."""
        if status.configs is None:
            return
        self.round.add_metric(status.labels, status.configs.at)
        self.changes.add_metric(status.labels, status.configs.changes)
        if not status.configs.has_ended:
            return
        view = configs_view(status.configs)
        for outcome, number in view.topics_by_outcome.items():
            self.topics.add_metric((*status.labels, outcome), number)


class AclMetrics:
    """The ACLs of a flow's source topics, after the last round over them."""

    def __init__(self) -> None:
        self.acls = GaugeMetricFamily(
            "mirror_topic_acls",
            "ACLs of source topics by what became of them on the target.",
            labels=(*FLOW, "outcome"),
        )
        self.round = GaugeMetricFamily(
            "mirror_topic_acl_round_timestamp_seconds",
            f"When the last round over the topics' ACLs ended{BEFORE}.",
            labels=FLOW,
            unit="seconds",
        )

    def add(self, status: FlowStatus) -> None:
        """Add what the last round of a flow has found."""
        if status.acls is None:
            return
        self.round.add_metric(status.labels, status.acls.at)
        if not status.acls.has_ended:
            return
        view = acls_view(status.acls)
        for outcome, number in view.acls_by_outcome.items():
            self.acls.add_metric((*status.labels, outcome), number)
