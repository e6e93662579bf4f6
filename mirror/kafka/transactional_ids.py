"""The transactional ids that mirror uses on a target."""

from __future__ import annotations

from mirror.settings import Flow


def transactional_id(flow: Flow, remote: str, partition: int) -> str:
    """The fixed id of the producer that moves one position. It contains the position's key, so no two flows share one.

    A producer that opens it fences the producers of all earlier owners.
    """
    return f"{flow.group}/{remote}/{partition}"


def flow_leader_id(flow: Flow) -> str:
    """The fixed id of the flow leader's producer. Its last part is not a number, so it is no partition's id."""
    return f"{flow.group}/leader"
