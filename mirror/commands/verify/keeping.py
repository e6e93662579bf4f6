"""Keeps the result of a comparison where the service reads it."""

from __future__ import annotations

from confluent_kafka import KafkaException

from mirror.control.control_topics import ControlWriter
from mirror.control.verification import VERIFY_KEY, Verification
from mirror.errors import MirrorError
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Flow


def keep(flow: Flow, found: Verification) -> str | None:
    """Write the result to the flow's control topic, if there is one. Returns why that has failed, or None."""
    try:
        ids, _ = ClusterAdmin(flow.target).ids_now([flow.control_topic])
        if flow.control_topic in ids:  # else no service has ever run the flow
            ControlWriter(flow).write({VERIFY_KEY: found.encode()})
    except (MirrorError, KafkaException) as error:
        return f"{flow.name}: the result is not kept for the metrics and the status page: {error}"
    return None
