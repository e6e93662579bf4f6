"""How the ACLs of a flow's source topics stand on the target, as plain data, after the last round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mirror.topics.acl_rounds import AclRound
from mirror.topics.acl_sync import AclOutcome, unnamed_principals

ACL_OUTCOMES = tuple(outcome.value for outcome in AclOutcome)


@dataclass(frozen=True, slots=True)
class AclView:
    """An ACL of the source that the target does not have as it is."""

    acl: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class AclsView:
    """All ACLs of a flow."""

    at: float | None  # when the last round ended, in seconds since the Unix epoch; None: none has ended yet
    problem: str  # why the newest round has failed; "" if it has not
    acls_by_outcome: dict[str, int]
    acls: list[AclView]  # those with a reason
    unnamed_principals: list[str]  # of copied ACLs; nothing else on the target names them


def acls_view(found: AclRound) -> AclsView:
    """How the ACLs stand after a round, or before the first one."""
    counts = Counter(each.outcome.value for each in found.acls)
    views = [AclView(str(each.source), each.outcome.value, each.reason) for each in found.acls if each.reason]
    return AclsView(
        found.ended_at,
        found.problem,
        {outcome: counts[outcome] for outcome in ACL_OUTCOMES},
        views,
        unnamed_principals(found.acls),
    )
