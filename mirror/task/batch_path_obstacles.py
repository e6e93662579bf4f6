"""Which partitions may be copied in whole batches, as far as the settings and the plan say. Pure."""

from __future__ import annotations

from mirror.model import Topic
from mirror.settings import Flow
from mirror.topic_transform import transform_of

DATA_PATH = "data_path"  # the obstacle that the flow wants the record path
_COMPRESSION = ("compression.type", "compression.codec")  # librdkafka's names for one property


def obstacle(flow: Flow, name: str, topic: Topic) -> str:
    """Why partitions of a source topic need the record path, in one word for logs and metrics; "" if they do not.

    Whole batches are forwarded as they are, in transactions. So nothing that looks at single records can be had.
    """
    reasons = {
        DATA_PATH: flow.data_path == "records",
        "without_transactions": not flow.exactly_once,
        "active_active": flow.active_active,  # each copy gets a header, and what comes back is left out
        "transform": transform_of(flow, name) is not None,
        "compression": _compresses(flow),
        "remote_topic": topic.remote_lost,  # a person has to decide
        "unknown_topic": not topic.topic_id,  # fetching is by id
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _compresses(flow: Flow) -> bool:
    """True if the settings say how batches on the target are compressed."""
    producer = {**flow.target.properties, **flow.target.producer}
    return flow.compression != "none" or any(producer.get(name, "none") != "none" for name in _COMPRESSION)
