"""Who may not do something on the source topic gets no ACL that allows it on the remote topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.acls import LITERAL, PREFIXED, Acl
from mirror.topics.acl_rules import READ_ONLY, TAKEN_BACK, AclCopy, AclRules, copies

RULES = AclRules({"orders": "primary.orders"}, {"mirror"})
BOB, EVERYBODY = "User:bob", "User:*"
READ = Acl("orders", BOB, "READ")


def deny(name: str, principal: str, operation: str, pattern: str = LITERAL, host: str = "*") -> Acl:
    """A DENY on the source."""
    return Acl(name, principal, operation, "DENY", pattern, host)


def copy_of_first(allow: Acl, *denials: Acl) -> AclCopy:
    """What becomes of an ALLOW beside these DENYs."""
    (found,) = (each for each in copies([allow, *denials], RULES) if each.source == allow)
    return found


@pytest.mark.parametrize(
    ("allow", "denial"),
    [
        (READ, deny("orders", EVERYBODY, "READ")),
        (READ, deny("ord", BOB, "READ", PREFIXED)),
        (READ, deny("orders", BOB, "READ", PREFIXED)),
        (READ, deny("*", BOB, "ALL")),
        (READ, deny("*", EVERYBODY, "READ")),
        (READ, deny("orders", EVERYBODY, "READ", host="10.0.0.9")),
        (replace(READ, host="10.0.0.9"), deny("orders", EVERYBODY, "READ")),
        (replace(READ, host="10.0.0.9"), deny("orders", EVERYBODY, "READ", host="10.0.0.9")),
        (replace(READ, principal=EVERYBODY), deny("ord", BOB, "READ", PREFIXED)),
        (replace(READ, principal="User:mirror"), deny("orders", "User:mirror", "READ")),
        # Reading allows describing, too. A DENY of ALL takes back each operation.
        (READ, deny("orders", EVERYBODY, "DESCRIBE")),
        (replace(READ, operation="DELETE"), deny("orders", EVERYBODY, "DESCRIBE")),
        (replace(READ, operation="ALTER"), deny("orders", EVERYBODY, "DESCRIBE")),
        (replace(READ, operation="ALTER_CONFIGS"), deny("orders", EVERYBODY, "DESCRIBE_CONFIGS")),
        (replace(READ, operation="CREATE"), deny("orders", EVERYBODY, "ALL")),
        # It becomes READ.
        (replace(READ, operation="ALL"), deny("orders", EVERYBODY, "READ")),
        # Nobody here knows who is in a group, nor what an unknown word means.
        (READ, deny("ord", "Group:guests", "READ", PREFIXED)),
        (replace(READ, principal="Group:staff"), deny("ord", "Group:guests", "READ", PREFIXED)),
        (READ, deny("orders", BOB, "UNKNOWN")),
        (READ, deny("ders", BOB, "READ", "UNKNOWN")),
        (READ, replace(READ, permission="UNKNOWN")),
    ],
)
def test_an_allow_that_a_deny_takes_back_is_not_copied(allow: Acl, denial: Acl) -> None:
    found = copy_of_first(allow, denial)
    assert (found.target, found.reason) == (None, f"{TAKEN_BACK}: {denial}")
    operation = "READ" if allow.operation == "ALL" else allow.operation
    assert found.withheld == replace(allow, name="primary.orders", operation=operation)
    assert copy_of_first(allow).target == found.withheld, "without the DENY it is copied"


@pytest.mark.parametrize(
    ("allow", "denial", "reason"),
    [
        (READ, deny("orders", EVERYBODY, "WRITE"), ""),
        (READ, deny("orders", "User:ann", "READ", PREFIXED), ""),
        (READ, deny("orders2", EVERYBODY, "ALL"), ""),
        (READ, deny("orders2", EVERYBODY, "ALL", PREFIXED), ""),
        (replace(READ, host="10.0.0.1"), deny("orders", EVERYBODY, "READ", host="10.0.0.9"), ""),
        # A DENY takes back no more than its own operation.
        (replace(READ, operation="DESCRIBE"), deny("orders", EVERYBODY, "READ"), ""),
        (replace(READ, operation="DESCRIBE_CONFIGS"), deny("orders", EVERYBODY, "ALTER_CONFIGS"), ""),
        # Of ALL, only READ is copied.
        (replace(READ, operation="ALL"), deny("orders", EVERYBODY, "WRITE"), READ_ONLY),
        # It is copied itself.
        (READ, deny("orders", BOB, "READ"), ""),
    ],
)
def test_an_allow_that_no_deny_takes_back_is_copied(allow: Acl, denial: Acl, reason: str) -> None:
    target = replace(allow, name="primary.orders", operation="READ" if allow.operation == "ALL" else allow.operation)
    assert copy_of_first(allow, denial) == AclCopy(allow, target, reason)


def test_one_deny_is_named_where_more_take_back_an_allow() -> None:
    everywhere, here = deny("*", BOB, "ALL"), deny("orders", EVERYBODY, "READ")
    assert copy_of_first(READ, everywhere, here).reason == f"{TAKEN_BACK}: {here}"


OPERATIONS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
PRINCIPALS, HOSTS = (BOB, "User:ann", "User:mirror"), ("10.0.0.1", "10.0.0.9")
acls = st.builds(
    Acl,
    st.sampled_from(["orders", "orders", "ord", "*", "other"]),
    st.sampled_from([*PRINCIPALS, EVERYBODY]),
    st.sampled_from([*OPERATIONS, "ALL"]),
    st.sampled_from(["ALLOW", "ALLOW", "DENY"]),
    st.sampled_from([LITERAL, LITERAL, PREFIXED]),
    st.sampled_from([*HOSTS, "*", "*"]),
)


def may(found: Iterable[Acl], topic: str, principal: str, operation: str, host: str) -> bool:
    """True if these ACLs allow it, as Kafka's StandardAuthorizer decides."""
    about = [
        acl
        for acl in found
        if (topic.startswith(acl.name) if acl.pattern == PREFIXED else acl.name in (topic, "*"))
        and acl.principal in (principal, EVERYBODY)
        and acl.host in (host, "*")
    ]
    enough = {"ALL", operation}
    if operation == "DESCRIBE":
        allowing = enough | {"READ", "WRITE", "DELETE", "ALTER"}
    else:
        allowing = enough | ({"ALTER_CONFIGS"} if operation == "DESCRIBE_CONFIGS" else set())
    if any(acl.permission == "DENY" and acl.operation in enough for acl in about):
        return False
    return any(acl.permission == "ALLOW" and acl.operation in allowing for acl in about)


@given(st.sets(acls, max_size=8))
def test_nobody_may_do_more_on_the_remote_topic(source: set[Acl]) -> None:
    target = [each.target for each in copies(source, RULES) if each.target]
    for principal in PRINCIPALS:
        for host in HOSTS:
            for operation in OPERATIONS:
                who = principal, operation, host
                assert may(source, "orders", *who) or not may(target, "primary.orders", *who), who
