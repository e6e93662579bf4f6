"""Which source topic each remote topic is the copy of, as the flow's newest plan says: for commands."""

from __future__ import annotations

from contextlib import closing

from mirror.control.control_reader import ControlReader
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Flow


def holders(flow: Flow) -> dict[str, str]:
    """By remote topic: the source topic whose copy it is. Raises ClusterAway."""
    if flow.control_topic not in ClusterAdmin(flow.target).partitions():
        return {}
    with closing(ControlReader(flow)) as control:
        control.read_to_end()
        return control.plan.holders if control.plan else {}
