"""Keeps the result of a comparison where the service reads it."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from mirror.control.control_topics import ControlWriter
from mirror.control.verification import VERIFY_KEY, Verification
from mirror.errors import MirrorError
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Flow


def keep(flow: Flow, found: Verification) -> str | None:
    """Write the result to the flow's control topic, if there is one. Returns why that has failed, or None."""
    try:
        _, refused = ClusterAdmin(flow.target).ids_now([flow.control_topic])
        error = refused.get(flow.control_topic)
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None  # no service has ever run the flow
        if error is not None:
            return _not_kept(flow, error.str())
        ControlWriter(flow).write({VERIFY_KEY: found.encode()})
    except (MirrorError, KafkaException) as failure:
        return _not_kept(flow, failure)
    return None


def _not_kept(flow: Flow, why: object) -> str:
    return f"{flow.name}: the result is not kept for the metrics and the status page: {why}"
