"""What the service knows of one cluster: whether it answers, failed logins, and when certificates expire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class ClusterStatus:
    """Written by one thread, read by others."""

    alias: str
    reachable: bool | None = None  # None before the first answer is there, or is late
    reason: str = ""  # why it is not reachable
    authentication_errors: int = 0  # since the service started
    # When the first certificate of each kind expires, in seconds since the Unix epoch: see kafka/certificates.py.
    certificates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One cluster, as this service sees it."""

    alias: str
    reachable: bool | None  # None: not known yet
    reason: str
    authentication_errors: int
    certificates: Mapping[str, float]  # when the first one of each kind expires, seconds since the Unix epoch


def cluster_view(status: ClusterStatus) -> ClusterView:
    """The present state of a cluster."""
    return ClusterView(
        status.alias, status.reachable, status.reason, status.authentication_errors, dict(status.certificates)
    )
