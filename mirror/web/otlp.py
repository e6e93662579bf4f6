"""Pushes the metrics of `/metrics` to an OpenTelemetry collector, by OTLP over HTTP. Needs the extra `otlp`."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export as otel
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from mirror import __version__
from mirror.logs import OnChange
from mirror.service_settings import Otlp
from mirror.text import BUG, printable

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds in which a push is tried again; an answer's next bytes are awaited as long
LAST_PUSH = 2.0  # seconds for the one when the service stops
CUMULATIVE = otel.AggregationTemporality.CUMULATIVE


class _Reason(logging.Handler):
    """Keeps what the library logs: it does not return why a push has failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the newest one."""
        self.text = record.getMessage()


class OtlpPusher(threading.Thread):
    """Collects the metrics and pushes them every `interval`, and once more when it is stopped.

    A collector that does not answer is told once, and changes nothing else: the next push has the newest values.
    """

    def __init__(self, settings: Otlp, registry: CollectorRegistry) -> None:
        """`registry` is collected at each push. Only the thread talks to the collector."""
        super().__init__(daemon=True, name="otlp")
        assert settings.endpoint is not None
        self._interval = settings.interval
        url = urlsplit(settings.endpoint)
        self._where = {"endpoint": f"{url.scheme}://{url.netloc}"}
        # What never goes to the log: a token may also be a part of the path, which errors have as it is sent.
        sent = _as_sent(settings.endpoint)
        texts = (settings.endpoint, url.path, sent, urlsplit(sent).path, *settings.headers.values())
        self._secrets = sorted({text for text in texts if len(text) > 1}, key=len, reverse=True)
        self._registry = registry
        self._stopping = False
        self._woken = threading.Event()
        self._failed = OnChange()
        self._reason = _Reason()
        self._resource = _resource()  # before the library's log is kept: it tells of variables that it can't read
        library = logging.getLogger("opentelemetry")
        library.addHandler(self._reason)
        library.propagate = False  # this thread says it, once
        # urllib3 logs whole URLs. What it says counts for nothing: another library's connections may have failed.
        connections = logging.getLogger("urllib3")
        connections.addHandler(logging.NullHandler())
        connections.propagate = False
        self._exporter = OTLPMetricExporter(
            settings.endpoint,
            headers=dict(settings.headers),
            timeout=TIMEOUT,
            compression=Compression.Gzip,
            session=_session(),
        )
        self._scope = InstrumentationScope("mirror", __version__)
        self._began = time.time_ns()

    def run(self) -> None:
        """Push until `stop`."""
        while not self._stopping:
            if self._woken.wait(self._interval):
                self._woken.clear()
            else:
                self._push()
        self._push()  # what has happened since the last one

    def pace(self, interval: float) -> None:
        """Push each `interval` from now on, in seconds."""
        if interval != self._interval:
            self._interval = interval
            self._woken.set()

    def stop(self) -> None:
        """Push once more, and end. Waits for that for at most LAST_PUSH."""
        self._stopping = True
        self._woken.set()
        self.join(LAST_PUSH)
        self._exporter.shutdown()

    def _push(self) -> None:
        try:
            self._reason.text = ""
            done = self._exporter.export(self._data()) is otel.MetricExportResult.SUCCESS
        except Exception:  # figures never end the service
            log.exception(BUG)
            return
        if done and self._failed.clear():
            log.info("metrics are pushed again", extra=self._where)
        elif not done and self._failed.is_new(True):
            said = "metrics can't be pushed, it tries again at each interval"
            log.warning(said, extra={**self._where, "reason": self._reason_shown()})

    def _reason_shown(self) -> str:
        text = self._reason.text
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return printable(text[:300]) or "not known"

    def _data(self) -> otel.MetricsData:
        found = list(metrics(self._registry.collect(), self._began, time.time_ns()))
        scope = otel.ScopeMetrics(self._scope, found, "")
        return otel.MetricsData([otel.ResourceMetrics(self._resource, [scope], "")])


def _resource() -> Resource:
    """What stands for this process: the variables of OpenTelemetry's libraries win.

    A leader and its standby need different ids, or else their series would be the same.
    """
    ours = {"service.name": "mirror", "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    return Resource.create(ours).merge(OTELResourceDetector().detect())


def _as_sent(endpoint: str) -> str:
    """The URL as requests writes it; "" if it can't."""
    try:
        return requests.Request("POST", endpoint).prepare().url or ""
    except requests.RequestException:
        return ""


def _session() -> requests.Session:
    """One that looks only at the status of an answer."""
    session = requests.Session()
    session.hooks["response"].append(_judge)
    return session


def _judge(response: requests.Response, *_: object, **__: object) -> None:
    """Take a redirection for a failure: the library takes it for a success, and nothing would arrive.

    The library needs no answer's body, and one may be endless, or a gigabyte once it is decompressed.
    """
    response._content = b""
    response.close()
    if response.is_redirect:
        raise requests.TooManyRedirects("the collector answers with a redirection: write its own URL")


def metrics(families: Iterable[Metric], began: int, now: int) -> Iterator[otel.Metric]:
    """The families in OpenTelemetry's form, by its rules for Prometheus. Times are ns since the Unix epoch.

    A counter loses its `_total`, a summary without quantiles is a histogram without bounds.
    """
    for family in families:
        data: otel.Sum | otel.Gauge | otel.Histogram
        if family.type in ("histogram", "summary"):
            data = otel.Histogram(list(_histograms(family, began, now)), CUMULATIVE)
        elif family.type == "counter":
            points = [_number(sample, began, now) for sample in family.samples if sample.name.endswith("_total")]
            data = otel.Sum(points, CUMULATIVE, is_monotonic=True)
        else:
            data = otel.Gauge([_number(sample, 0, now) for sample in family.samples])
        if data.data_points:
            name = family.samples[0].name if family.type == "info" else family.name
            yield otel.Metric(name, family.documentation, "", data)


def _number(sample: Sample, began: int, now: int) -> otel.NumberDataPoint:
    return otel.NumberDataPoint(sample.labels, began, now, float(sample.value))


def _histograms(family: Metric, began: int, now: int) -> Iterator[otel.HistogramDataPoint]:
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = tuple(item for item in sample.labels.items() if item[0] != "le")
        series.setdefault(labels, []).append(sample)
    for labels, samples in series.items():
        yield _histogram(dict(labels), samples, began, now)


def _histogram(labels: Mapping[str, str], samples: Iterable[Sample], began: int, now: int) -> otel.HistogramDataPoint:
    """Prometheus counts all observations up to a bound, OpenTelemetry those between two bounds."""
    total, count, upto = 0.0, 0, dict[float, int]()
    for sample in samples:
        if sample.name.endswith("_sum"):
            total = sample.value
        elif sample.name.endswith("_count"):
            count = int(sample.value)
        elif sample.name.endswith("_bucket"):
            upto[float(sample.labels["le"])] = int(sample.value)
    bounds = sorted(bound for bound in upto if bound < math.inf)
    sums = [*(upto[bound] for bound in bounds), max(count, upto.get(math.inf, 0))]
    counts = [after - before for before, after in zip([0, *sums], sums, strict=False)]
    unknown: float = None  # type: ignore[assignment]  # the least and the greatest one are left out of the message
    return otel.HistogramDataPoint(labels, began, now, sums[-1], total, counts, bounds, unknown, unknown)
