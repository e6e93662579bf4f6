"""The transactional ids that mirror uses on a target."""

from __future__ import annotations

from mirror.settings import Flow


def transactional_id(flow: Flow, remote: str, partition: int) -> str:
    """The fixed id of whoever moves one position: it has the position's own key, so no other flow's is the same.

    Whoever opens it fences every earlier owner.
    """
    return f"{flow.group}/{remote}/{partition}"


def leader_id(flow: Flow) -> str:
    """The fixed id of whoever leads the flow; the last part is no number, so it is no partition's."""
    return f"{flow.group}/leader"
