"""What is pushed to an OpenTelemetry collector."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from mirror import __version__
from mirror.service_settings import Otlp
from mirror.web import otlp
from tests.harness.otlp_collector import OtlpCollector
from tests.harness.waiting import PATIENCE, until


class Families(Collector):
    """One family of each kind that mirror has."""

    def collect(self) -> Iterable[Metric]:
        counter = CounterMetricFamily("records", "Records.", labels=("topic",))
        counter.add_metric(("a",), 7)
        counter.add_metric(("b",), 8)
        gauge = GaugeMetricFamily("lag", "Lag.", value=3.5)
        histogram = HistogramMetricFamily("latency", "Latency.", labels=("topic",))
        histogram.add_metric(("a",), [("0.1", 2), ("1", 5), ("+Inf", 6)], 4.5)
        histogram.add_metric(("b",), [("0.1", 0), ("1", 0), ("+Inf", 0)], 0)
        summary = SummaryMetricFamily("age", "Age.", count_value=4, sum_value=2.5)
        info = InfoMetricFamily("build", "Build.", {"version": "1"})
        return [counter, gauge, histogram, summary, info, GaugeMetricFamily("none", "No series.", labels=("topic",))]


@pytest.fixture(autouse=True)
def _the_last_push_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(otlp, "LAST_PUSH", PATIENCE)


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Families())
    return registry


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as running:
        yield running


def test_all_kinds_of_metrics_arrive_with_their_values(registry: CollectorRegistry, collector: OtlpCollector) -> None:
    pusher = otlp.OtlpPusher(Otlp(collector.endpoint, 3600.0, {"authorization": "Bearer t"}), registry)
    pusher.start()
    pusher.stop()
    assert collector.authorizations == ["Bearer t"]
    (found,) = collector.pushed
    assert found.keys() == {"records", "lag", "latency", "age", "build_info"}
    records = found["records"].sum
    assert records.is_monotonic and records.aggregation_temporality == 2, "cumulative"
    by_topic = {point.attributes[0].value.string_value: point for point in records.data_points}
    assert {name: point.as_double for name, point in by_topic.items()} == {"a": 7, "b": 8}
    assert 0 < by_topic["a"].start_time_unix_nano < by_topic["a"].time_unix_nano
    assert [point.as_double for point in found["lag"].gauge.data_points] == [3.5]
    latency, none = found["latency"].histogram.data_points
    assert (latency.count, latency.sum) == (6, 4.5)
    assert (list(latency.explicit_bounds), list(latency.bucket_counts)) == ([0.1, 1.0], [2, 3, 1])
    assert not latency.HasField("min") and not latency.HasField("max")
    assert (none.count, list(none.bucket_counts)) == (0, [0, 0, 0])
    (age,) = found["age"].histogram.data_points
    assert (age.count, age.sum, list(age.explicit_bounds), list(age.bucket_counts)) == (4, 2.5, [], [4])
    (build,) = found["build_info"].gauge.data_points
    assert build.as_double == 1 and build.attributes[0].value.string_value == "1"


def pushed_resource(registry: CollectorRegistry, collector: OtlpCollector) -> dict[str, str]:
    """What a service tells of itself with a push."""
    pusher = otlp.OtlpPusher(Otlp(collector.endpoint, 3600.0, {}), registry)
    pusher.start()
    pusher.stop()
    return collector.resources[-1]


def test_each_service_has_an_id_of_its_own(
    registry: CollectorRegistry, collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the series of a flow leader and those of its standby would be the same."""
    for name in ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    one, other = (pushed_resource(registry, collector) for _ in range(2))
    assert (one["service.name"], one["service.version"]) == ("mirror", __version__)
    assert uuid.UUID(one["service.instance.id"]) != uuid.UUID(other["service.instance.id"])


def test_the_variables_of_opentelemetry_win(
    registry: CollectorRegistry, collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = "service.instance.id=pod-1,service.name=other,deployment.environment.name=east%20"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", attributes)
    found = pushed_resource(registry, collector)
    assert (found["service.name"], found["service.instance.id"]) == ("other", "pod-1")
    assert (found["deployment.environment.name"], found["service.version"]) == ("east ", __version__)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "copies")
    assert pushed_resource(registry, collector)["service.name"] == "copies"


def test_a_collector_that_refuses_is_told_once_and_when_it_takes_them_again(
    registry: CollectorRegistry, collector: OtlpCollector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mirror")
    collector.status = 403
    pusher = otlp.OtlpPusher(Otlp(collector.endpoint, 0.02, {"authorization": "Bearer t"}), registry)
    pusher.start()
    until("several tries", lambda: len(collector.authorizations) >= 3)
    collector.status = 200
    until("a push", lambda: collector.pushed)
    pusher.stop()
    said = [record for record in caplog.records if record.name == "mirror.web.otlp"]
    assert [record.getMessage() for record in said] == [
        "metrics can't be pushed, it tries again at each interval",
        "metrics are pushed again",
    ]
    assert "403" in said[0].__dict__["reason"] and "Bearer" not in caplog.text


@pytest.mark.parametrize("status", [0, 302])
def test_no_secret_and_no_path_is_in_the_reason(
    registry: CollectorRegistry,
    collector: OtlpCollector,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is so if nothing listens there, and if the answer is a redirection."""
    if not status:
        monkeypatch.setattr(otlp, "TIMEOUT", 0.5)
    collector.status = status
    endpoint = f"{collector.endpoint}/secret-token" if status else "http://127.0.0.1:1/secret-token"
    pusher = otlp.OtlpPusher(Otlp(endpoint, 0.02, {"authorization": "Bearer t0ken"}), registry)
    pusher.start()
    until("told", lambda: [record for record in caplog.records if record.name == "mirror.web.otlp"])
    pusher.stop()
    shown = str([record.__dict__ for record in caplog.records if record.name == "mirror.web.otlp"])
    assert "secret-token" not in shown and "t0ken" not in shown
    assert ("redirection" if status else "127.0.0.1") in shown


@contextmanager
def answering(head: bytes, more: bytes = b"") -> Iterator[str]:
    """A collector that sends these bytes for each request, and then `more` again and again."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(2**20)
                    connection.sendall(head)
                    while more:
                        connection.sendall(more)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            server.shutdown(socket.SHUT_RDWR)


def test_a_body_without_an_end_is_not_read(registry: CollectorRegistry, caplog: pytest.LogCaptureFixture) -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", bytes(2**16)) as endpoint:
        pusher = otlp.OtlpPusher(Otlp(endpoint, 3600.0, {}), registry)
        pusher.start()
        pusher.stop()
        until("it has ended", lambda: not pusher.is_alive())
    assert not caplog.records


class Lines(logging.Handler):
    """Keeps what comes to the root logger's handlers, as mirror's own handler is one (caplog gets more than that)."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(str(vars(record)))


@pytest.fixture
def log() -> Iterator[list[str]]:
    handler = Lines()
    logging.getLogger().addHandler(handler)
    yield handler.lines
    logging.getLogger().removeHandler(handler)


def test_no_other_logger_shows_the_path(registry: CollectorRegistry, log: list[str]) -> None:
    """urllib3 logs the URL of an answer whose headers it can't read."""
    with answering(b"HTTP/1.1 403 No\r\nno header\r\nContent-Length: 0\r\n\r\n") as endpoint:
        pusher = otlp.OtlpPusher(Otlp(f"{endpoint}/secret-token", 3600.0, {}), registry)
        pusher.start()
        pusher.stop()
        until("it has ended", lambda: not pusher.is_alive())
    (line,) = log
    assert "403" in line and "secret-token" not in line


def test_a_path_is_hidden_as_it_is_sent(registry: CollectorRegistry) -> None:
    pusher = otlp.OtlpPusher(Otlp("http://127.0.0.1:1/s\u00e9cret", 3600.0, {}), registry)
    for path in ("/s\u00e9cret", "/s%C3%A9cret"):
        pusher._reason.text = f"refused, url: {path} (port=1)"
        assert pusher._reason_shown() == "refused, url: *** (port=1)"


def test_another_interval_counts_at_once(registry: CollectorRegistry, collector: OtlpCollector) -> None:
    pusher = otlp.OtlpPusher(Otlp(collector.endpoint, 3600.0, {}), registry)
    pusher.start()
    pusher.pace(0.02)
    until("pushes", lambda: len(collector.pushed) >= 2)
    pusher.stop()


def test_a_collector_that_does_not_answer_holds_up_no_stop(
    registry: CollectorRegistry, collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "LAST_PUSH", 0.1)
    collector.status = 503  # which the library retries until its time-out
    pusher = otlp.OtlpPusher(Otlp(collector.endpoint, 3600.0, {}), registry)
    pusher.start()
    pusher.stop()
    until("it has ended", lambda: not pusher.is_alive())
    assert not collector.pushed
