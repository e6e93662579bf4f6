"""Whether this process is the application of a spark-submit; for what must not import PySpark to know it."""

from __future__ import annotations

from collections.abc import Mapping

GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"  # Spark's PythonRunner sets it for an application


def is_submitted(environment: Mapping[str, str]) -> bool:
    """True if a spark-submit has started the process that has this environment."""
    return GATEWAY_PORT in environment
