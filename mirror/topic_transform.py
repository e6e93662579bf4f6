"""Which transform a topic has. Tasks ask this, and so it must not need a replication policy of the user's own."""

from __future__ import annotations

from mirror.settings import NO_TRANSFORM, Flow
from mirror.template import Template, is_of_heartbeats


def transform_of(flow: Flow, topic: str) -> str | None:
    """The dotted path of a source topic's transform; None if its records are copied as they are.

    That is so for mirror's own records, heartbeats and canaries.
    """
    own = flow.topic_settings.get(topic)
    path = own.transform if own is not None and own.transform is not None else flow.transform
    if path is None or path == NO_TRANSFORM or topic == flow.canary_topic:
        return None
    template = Template.chosen(flow.remote_topic, flow.replication_policy, flow.separator)
    copies_heartbeats = flow.heartbeats.enabled and is_of_heartbeats(topic, template.separator or flow.separator)
    return None if copies_heartbeats else path
