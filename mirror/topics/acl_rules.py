"""Decides which ACLs of a source topic its remote topic gets, and says why it does not get the others. Pure.

The rules are MirrorMaker's, and two more: docs/operations.md lists them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from mirror.kafka.acls import PREFIXED, UNKNOWN, Acl

EVERYBODY, USER = "User:*", "User:"

WRITE = "access for writing is not copied: nobody but mirror writes to remote topics"
READ_ONLY = "ALL becomes READ: nobody but mirror writes to remote topics"
PATTERN = "only ACLs of single topics are copied, and this one may also be about topics that are not mirrored"
UNNAMED = "no other ACL of the target names this principal, so the target may lack it"
STRANGE = "mirror does not know its operation, its permission type or its pattern type"
DENIES_US = "it is a DENY for everybody or for mirror's own user: it could lock mirror out"


def own_user(properties: Mapping[str, str]) -> str:
    """Our user on the cluster that these librdkafka properties reach; "" if they do not tell it.

    Who logs in with a certificate, a token or Kerberos has the name that the brokers give to it.
    """
    mechanism = properties.get("sasl.mechanisms") or properties.get("sasl.mechanism", "GSSAPI")
    by_password = mechanism == "PLAIN" or mechanism.startswith("SCRAM-")
    uses_sasl = properties.get("security.protocol", "").lower().startswith("sasl_")
    return properties.get("sasl.username", "") if uses_sasl and by_password else ""


@dataclass(frozen=True, slots=True)
class AclRules:
    """What decides about an ACL."""

    remotes: Mapping[str, str]  # the remote topic of each topic whose ACLs are copied
    us: str = ""  # our user on the target; "" if it is not known


@dataclass(frozen=True, slots=True)
class AclCopy:
    """What becomes of an ACL of the source."""

    source: Acl
    target: Acl | None  # None: it is not copied
    reason: str = ""  # why it is not copied, or why not as it is


def copies(acls: Collection[Acl], rules: AclRules) -> list[AclCopy]:
    """What becomes of each ACL that is about one of the topics, in order."""
    return [found for acl in sorted(acls) if (found := copy_of(acl, rules)) is not None]


def strangers(wanted: Collection[Acl], there: Collection[Acl], named: Collection[str], us: str = "") -> frozenset[str]:
    """The principals of the wanted ACLs that nothing else on the target names.

    `there` has the target's ACLs of topics, `named` the principals that its other ACLs name. A target that gives
    neither tells nothing: an answer that is refused is empty, too.
    """
    if not there and not named:
        return frozenset()
    others = {acl.principal for acl in set(there) - set(wanted)}
    return frozenset({acl.principal for acl in wanted} - others - set(named) - {EVERYBODY, f"{USER}{us}"})


def copy_of(acl: Acl, rules: AclRules) -> AclCopy | None:
    """What becomes of one ACL; None if it is about none of the topics."""
    wide = acl.name == "*"
    if wide or acl.pattern == PREFIXED:
        touches = any(wide or name.startswith(acl.name) for name in rules.remotes)
        return AclCopy(acl, None, PATTERN) if touches else None
    remote = rules.remotes.get(acl.name)
    if remote is None:
        return None
    if UNKNOWN in (acl.operation, acl.permission, acl.pattern):
        return AclCopy(acl, None, STRANGE)
    allows = acl.permission == "ALLOW"
    if allows and acl.operation == "WRITE":
        return AclCopy(acl, None, WRITE)
    # MirrorMaker copies such a DENY, and may then be locked out itself.
    if not allows and acl.principal in (EVERYBODY, f"{USER}{rules.us}"):
        return AclCopy(acl, None, DENIES_US)
    downgraded = allows and acl.operation == "ALL"
    target = replace(acl, name=remote, operation="READ" if downgraded else acl.operation)
    return AclCopy(acl, target, READ_ONLY if downgraded else "")
