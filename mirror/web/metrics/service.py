"""The Prometheus metrics of the service itself."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

from mirror import __version__
from mirror.status.configuration import ConfigurationView


class ServiceMetrics:
    """The service itself. The names and meanings are those of Prometheus' own metrics of its configuration."""

    def __init__(self, view: ConfigurationView) -> None:
        self.build = InfoMetricFamily("mirror_build", "Version of mirror.")
        self.build.add_metric((), {"version": __version__})
        self.successful = GaugeMetricFamily(
            "mirror_config_last_reload_successful",
            "1 if the configuration was valid when it was last read; 0 while older settings are in force.",
            float(not view.problem),
        )
        self.succeeded_at = GaugeMetricFamily(
            "mirror_config_last_reload_success_timestamp_seconds",
            "When the configuration was last read and valid.",
            view.succeeded_at,
            unit="seconds",
        )
        self.restart_needed = GaugeMetricFamily(
            "mirror_config_restart_needed",
            "1 if keys were changed that take effect at the next start only; the log and the status page name them.",
            float(bool(view.waiting)),
        )
