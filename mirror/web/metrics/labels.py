"""The labels that several metrics have."""

from __future__ import annotations

CLUSTER = ("cluster",)
FLOW = ("source", "target")
GROUP = (*FLOW, "group")
TOPIC = (*FLOW, "topic")
PARTITION = (*TOPIC, "partition")
