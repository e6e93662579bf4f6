"""Which ACLs remote topics get: MirrorMaker's rules, and what mirror adds to them. A line of the table is one ACL."""

from __future__ import annotations

import pytest

from mirror.kafka.acls import LITERAL, PREFIXED, Acl
from mirror.topics.acl_rules import (
    DENIES_US,
    PATTERN,
    READ_ONLY,
    STRANGE,
    WRITE,
    AclCopy,
    AclRules,
    copies,
    copy_of,
    own_user,
    strangers,
)

RULES = AclRules({"orders": "primary.orders"}, {"mirror"})
BILLING = "User:billing"


def copied(operation: str, principal: str = BILLING, permission: str = "ALLOW", host: str = "*") -> Acl:
    """The remote topic's."""
    return Acl("primary.orders", principal, operation, permission, LITERAL, host)


@pytest.mark.parametrize(
    ("acl", "target", "reason"),
    [
        *(
            (Acl("orders", BILLING, operation), copied(operation), "")
            for operation in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS", "CREATE", "DELETE")
        ),
        (Acl("orders", BILLING, "READ", host="10.0.0.1"), copied("READ", host="10.0.0.1"), ""),
        (Acl("orders", "User:*", "READ"), copied("READ", "User:*"), ""),
        (Acl("orders", BILLING, "WRITE"), None, WRITE),
        (Acl("orders", BILLING, "ALL"), copied("READ"), READ_ONLY),
        # Who must not do something there must not do it here.
        *(
            (Acl("orders", BILLING, operation, "DENY"), copied(operation, permission="DENY"), "")
            for operation in ("READ", "WRITE", "ALL")
        ),
        (Acl("orders", "User:*", "WRITE", "DENY"), None, DENIES_US),
        (Acl("orders", "User:mirror", "ALL", "DENY"), None, DENIES_US),
        (Acl("orders", "User:mirror", "READ"), copied("READ", "User:mirror"), ""),
        (Acl("orders", "Group:any", "READ"), copied("READ", "Group:any"), ""),
        (Acl("ord", BILLING, "READ", pattern=PREFIXED), None, PATTERN),
        (Acl("*", BILLING, "READ"), None, PATTERN),
        # What is newer than librdkafka's lists, of which nobody can say what it means.
        (Acl("orders", BILLING, "UNKNOWN"), None, STRANGE),
        (Acl("orders", BILLING, "UNKNOWN", "DENY"), None, STRANGE),
        (Acl("orders", BILLING, "READ", "UNKNOWN"), None, STRANGE),
        (Acl("orders", "User:*", "READ", "UNKNOWN"), None, STRANGE),
        (Acl("orders", BILLING, "READ", pattern="UNKNOWN"), None, STRANGE),
    ],
)
def test_what_becomes_of_an_acl(acl: Acl, target: Acl | None, reason: str) -> None:
    assert copy_of(acl, RULES) == AclCopy(acl, target, reason)


@pytest.mark.parametrize("acl", [Acl("other", BILLING, "READ"), Acl("other", BILLING, "READ", pattern=PREFIXED)])
def test_an_acl_of_other_topics_is_nobodys_business(acl: Acl) -> None:
    assert copy_of(acl, RULES) is None


def test_no_access_for_writing_is_ever_given() -> None:
    """No ACL that allows it comes out, whatever the source has."""
    words = ("ALL", "READ", "WRITE", "CREATE", "DESCRIBE", "ALTER")
    acls = [
        Acl(name, principal, operation, permission, pattern)
        for name in ("orders", "*", "ord")
        for principal in (BILLING, "User:*", "User:mirror")
        for operation in words
        for permission in ("ALLOW", "DENY")
        for pattern in (LITERAL, PREFIXED)
    ]
    targets = [each.target for each in copies(acls, RULES) if each.target]
    assert targets and all(each.name == "primary.orders" and each.pattern == LITERAL for each in targets)
    assert not [each for each in targets if each.permission == "ALLOW" and each.operation in ("WRITE", "ALL")]


def test_principals_that_only_copied_acls_name() -> None:
    billing, app = copied("READ"), copied("READ", "User:app")
    others = {Acl("elsewhere", "User:app", "READ"), Acl("elsewhere", "User:more", "READ")}
    wanted = [billing, app, copied("READ", "User:*"), copied("READ", "User:mirror")]
    assert strangers(wanted, others, (), {"mirror"}) == {BILLING}
    assert strangers(wanted, {*others, billing, app}, (), {"mirror"}) == {BILLING}, "what is copied names nobody"
    assert strangers(wanted, others, {BILLING}, {"mirror"}) == frozenset(), "an ACL of a group"
    assert strangers(wanted, {*others, copied("DESCRIBE")}, (), {"mirror"}) == frozenset(), "the target's own"
    assert strangers(wanted, (), (), {"mirror"}) == frozenset(), "a refused answer is empty, too: nothing is known"
    assert strangers(wanted, (), {"User:more"}) == {BILLING, "User:app", "User:mirror"}, "our user is not known"


USER = {"security.protocol": "SASL_SSL", "sasl.username": "mirror"}


@pytest.mark.parametrize(
    ("properties", "user"),
    [
        (USER | {"sasl.mechanisms": "PLAIN"}, "mirror"),
        (USER | {"sasl.mechanism": "SCRAM-SHA-512", "security.protocol": "sasl_plaintext"}, "mirror"),
        (USER | {"sasl.mechanisms": "OAUTHBEARER"}, ""),
        (USER | {"sasl.mechanisms": "GSSAPI"}, ""),
        (USER, ""),  # Kerberos is the default
        (USER | {"sasl.mechanisms": "PLAIN", "security.protocol": "SSL"}, ""),  # perhaps with a certificate
        ({"sasl.mechanisms": "PLAIN", "sasl.username": "mirror"}, ""),
        ({}, ""),
    ],
)
def test_our_own_user_is_known_from_a_login_with_a_password(properties: dict[str, str], user: str) -> None:
    assert own_user(properties) == user


def test_an_acl_for_people() -> None:
    assert str(Acl("orders", BILLING, "READ")) == "ALLOW READ on orders to User:billing"
    assert str(Acl("o", BILLING, "ALL", "DENY", PREFIXED, "h")) == "DENY ALL on o* to User:billing from h"
