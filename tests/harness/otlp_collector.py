"""An OpenTelemetry collector's HTTP port, which keeps what is pushed to it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric


class OtlpCollector:
    """A context manager. `status` is what it answers: other than 200 it refuses."""

    def __init__(self) -> None:
        self.status = 200
        self.authorizations: list[str | None] = []  # of each request
        self.pushed: list[dict[str, Metric]] = []  # by name, of each request that was taken
        self.resources: list[dict[str, str]] = []  # what each of these tells of the service
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
                collector.authorizations.append(self.headers["Authorization"])
                if collector.status == 200:
                    collector.take(ExportMetricsServiceRequest.FromString(body))
                self.send_response(collector.status)
                if collector.status == 302:
                    self.send_header("Location", collector.endpoint)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Be silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/metrics"

    def take(self, request: ExportMetricsServiceRequest) -> None:
        """Keep a push."""
        (resource,) = request.resource_metrics
        self.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
        (scope,) = resource.scope_metrics
        self.pushed.append({metric.name: metric for metric in scope.metrics})

    def __enter__(self) -> OtlpCollector:
        threading.Thread(target=self._server.serve_forever, daemon=True, name="collector").start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
