"""What a service shows, and what it watches, whether it leads flows or stands by."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from confluent_kafka import libversion

from mirror import __version__
from mirror.kafka.librdkafka_log import unchecked
from mirror.kafka.overridden import overridden
from mirror.service.cluster_watch import ClusterWatch
from mirror.service_settings import Settings
from mirror.status.cluster_status import ClusterStatus
from mirror.status.configuration import ConfigurationStatus
from mirror.status.flow_status import FlowStatus
from mirror.status.overview import overview
from mirror.web.extras import Pusher, otlp_pusher
from mirror.web.metrics.scrape import Metrics
from mirror.web.page import files, page
from mirror.web.server import Answer, Health, Route, WebServer, health, metrics

log = logging.getLogger(__name__)


LOOPBACK = ("127.0.0.1", "::1", "localhost")


def log_warnings(settings: Settings) -> None:
    """Log what is allowed in the configuration, but is ignored or looks like a mistake; and an untested librdkafka."""
    if said := unchecked(libversion()[0]):
        log.warning("; ".join(said))
    for flow in settings.flows:
        for line in (*overridden(flow), *map(str, settings.warned(flow))):
            log.warning(line, extra={"flow": flow.name})
    http = settings.http
    if http.username is not None and http.tls_certificate is None and http.host not in LOOPBACK:
        log.warning("http: the password travels in the clear; set tls_certificate and tls_key, or a host of 127.0.0.1")


class Front:
    """Answers HTTP, pushes metrics, and looks whether each cluster answers: from `with` on, until that ends."""

    def __init__(
        self,
        settings: Settings,
        flows: Sequence[FlowStatus],
        configuration: ConfigurationStatus,
        live: Health,
        ready: Health,
        well: Callable[[], str] = lambda: "ok",
    ) -> None:
        """`live` and `ready` have the problems that `/livez` and `/readyz` show; without one `/readyz` says `well`."""
        self._settings = settings
        self._flows = flows
        self._configuration = configuration
        self._live, self._ready, self._well = live, ready, well
        self._closing = threading.Event()
        clusters = {cluster.alias: cluster for flow in settings.flows for cluster in (flow.source, flow.target)}
        self._watches = [ClusterWatch(cluster, self._closing) for cluster in clusters.values()]
        self._pusher: Pusher | None = None
        self._web: WebServer | None = None

    @property
    def clusters(self) -> Mapping[str, ClusterStatus]:
        """What is known of each cluster, by alias."""
        return {watch.status.alias: watch.status for watch in self._watches}

    def __enter__(self) -> Front:
        """Begin. Raises SetupError."""
        self._pusher = self._made_pusher()
        self._web = WebServer(self._settings.http, self._routes())
        log.info("mirror starts", extra={"version": __version__, "port": self._web.port})
        if self._pusher is not None:
            self._pusher.start()
        log_warnings(self._settings)
        for watch in self._watches:
            watch.start()
        return self

    def follow(self, settings: Settings) -> None:
        """Use other settings from now on. They differ only in what can change while the service runs."""
        if self._pusher is not None:
            self._pusher.pace(settings.metrics.otlp.interval)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """End."""
        self._closing.set()
        if self._web is not None:
            self._web.stop()
        if self._pusher is not None:
            self._pusher.stop()

    def _routes(self) -> dict[str, Route]:
        flows, clusters = self._flows, list(self.clusters.values())
        return {
            "/": lambda request: page(overview(flows, self._configuration.view, clusters), request),
            "/status": lambda _: Answer("application/json", overview(flows, self._configuration.view, clusters).json()),
            "/metrics": metrics(self._metrics().registry),
            "/livez": health(self._live),
            "/readyz": health(self._ready, self._well),
            **files(),
        }

    def _made_pusher(self) -> Pusher | None:
        """The thread that pushes the metrics; None if the configuration does not want it. Raises SetupError."""
        wanted = self._settings.metrics.otlp
        return None if wanted.endpoint is None else otlp_pusher(wanted, self._metrics().registry)

    def _metrics(self) -> Metrics:
        labels, clusters = self._settings.metrics.labels, list(self.clusters.values())
        return Metrics(self._flows, labels, self._configuration, clusters, self._http_expiry)

    def _http_expiry(self) -> float | None:
        return None if self._web is None else self._web.certificate_expiry
