"""The Prometheus metrics of the clusters that the service's flows name."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mirror.kafka.certificates import HTTP
from mirror.status.cluster_status import ClusterStatus
from mirror.web.metrics.labels import CLUSTER


class ClusterMetrics:
    """One series for each cluster, however many flows it has."""

    def __init__(self) -> None:
        self.reachable = GaugeMetricFamily(
            "mirror_cluster_reachable",
            "1 if the cluster answers this service on a connection that is at most a minute old, else 0.",
            labels=CLUSTER,
        )
        self.authentication = CounterMetricFamily(
            "mirror_authentication_errors",
            "Connections of this service that failed because the cluster refused its login, or because of TLS.",
            labels=CLUSTER,
            unit="errors",
        )
        self.certificate = GaugeMetricFamily(
            "mirror_certificate_expiry_timestamp_seconds",
            "When a certificate that the configuration names expires; of several in one file, the first. "
            "That of the HTTP server is the one in force, and has no cluster.",
            labels=(*CLUSTER, "kind"),
            unit="seconds",
        )

    def add(self, status: ClusterStatus) -> None:
        """Add what is known of a cluster."""
        if status.reachable is not None:
            self.reachable.add_metric((status.alias,), float(status.reachable))
        self.authentication.add_metric((status.alias,), status.authentication_errors)
        for kind, expires in status.certificates.items():
            self.certificate.add_metric((status.alias, kind), expires)

    def add_http(self, expires: float | None) -> None:
        """Add the certificate of the service's HTTP server, if it has one. It belongs to no cluster."""
        if expires is not None:
            self.certificate.add_metric(("", HTTP), expires)
