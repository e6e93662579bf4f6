"""What needs an extra of the distribution. It is imported only when it is wanted, because it may not be installed."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry

from mirror.errors import SetupError
from mirror.service_settings import Otlp


class Pusher(Protocol):
    """A thread that pushes metrics."""

    def start(self) -> None:
        """Begin."""

    def pace(self, interval: float) -> None:
        """Push each `interval` from now on, in seconds."""

    def stop(self) -> None:
        """Push the metrics once more, and end."""


def otlp_pusher(settings: Otlp, registry: CollectorRegistry) -> Pusher:
    """The thread that pushes metrics by OTLP. Raises SetupError without the extra `otlp`."""
    try:
        from mirror.web.otlp import OtlpPusher  # noqa: PLC0415  its libraries are the extra
    except ImportError as error:
        raise SetupError("metrics.otlp needs more packages: pip install 'kafka-mirror-spark[otlp]'") from error
    return OtlpPusher(settings, registry)
