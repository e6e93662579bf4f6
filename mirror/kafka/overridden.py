"""Says which of the user's properties have no effect, because exactly-once needs another value."""

from __future__ import annotations

from mirror.kafka.clients import SOURCE_CONSUMER
from mirror.kafka.producers import ALIASES, fixed_producer
from mirror.settings import Flow


def overridden(flow: Flow) -> list[str]:
    """Lines for the log, one for each such property."""
    of_consumer = {**SOURCE_CONSUMER, "group.id": flow.group}
    of_producer = {**fixed_producer(flow), "transactional.id": "one per partition"}
    pairs = [
        (flow.source, "consumer", {**flow.source.properties, **flow.source.consumer}, of_consumer),
        (flow.target, "producer", {**flow.target.properties, **flow.target.producer}, of_producer),
    ]
    return [
        f"clusters.{cluster.alias}: {key} is ignored for the {role}: exactly-once needs {str(fixed[name]).lower()}"
        for cluster, role, theirs, fixed in pairs
        for key, value in theirs.items()
        if (name := ALIASES.get(key, key)) in fixed and str(value).lower() != str(fixed[name]).lower()
    ]
