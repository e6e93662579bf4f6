"""The ACLs of source topics as plain data."""

from __future__ import annotations

from dataclasses import replace

from mirror.kafka.acls import Acl
from mirror.status.acl_overview import ACL_OUTCOMES, acls_view
from mirror.topics.acl_rounds import AclRound
from mirror.topics.acl_sync import AclOutcome, AclStatus

READ = Acl("orders", "User:billing", "READ")


def acl_round(*outcomes: AclOutcome) -> AclRound:
    """A round with an ACL of each outcome."""
    here = (AclOutcome.IN_STEP, AclOutcome.CREATED)
    target = replace(READ, name="primary.orders")
    found = (AclStatus(READ, target, each, "" if each in here else f"it is {each}") for each in outcomes)
    return AclRound(99.0, tuple(found))


def test_outcomes_are_counted_and_what_is_not_copied_is_listed() -> None:
    view = acls_view(acl_round(*AclOutcome, AclOutcome.CREATED))
    assert (view.at, view.acls_by_outcome) == (99, dict.fromkeys(ACL_OUTCOMES, 1) | {"created": 2})
    assert [(each.outcome, each.reason) for each in view.acls] == [
        ("missing", "it is missing"),
        ("not_copied", "it is not_copied"),
    ]
    assert view.unnamed_principals == []
    assert view.acls[0].acl == "ALLOW READ on orders to User:billing"


def test_principals_that_the_target_may_lack_are_listed_once() -> None:
    found = acl_round(AclOutcome.IN_STEP, AclOutcome.CREATED, AclOutcome.MISSING)
    found = replace(found, acls=tuple(replace(each, stranger=True) for each in found.acls))
    assert acls_view(found).unnamed_principals == ["User:billing"]
