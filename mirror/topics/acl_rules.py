"""Decides which ACLs of a source topic its remote topic gets, and says why it does not get the others. Pure.

The rules are MirrorMaker's, and some more: docs/operations.md lists them. One of them keeps a remote topic from being
open to more people than its source topic: an ALLOW is not copied if a DENY that is not copied takes some of it back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, replace

from mirror.kafka.acls import LITERAL, PREFIXED, UNKNOWN, Acl

EVERYBODY, USER = "User:*", "User:"

WRITE = "access for writing is not copied: nobody but mirror writes to remote topics"
READ_ONLY = "ALL becomes READ: nobody but mirror writes to remote topics"
PATTERN = "only ACLs of single topics are copied, and this one may also be about topics that are not mirrored"
UNNAMED = "no other ACL of the target names this principal, so the target may lack it"
STRANGE = "mirror does not know its operation, its permission type or its pattern type"
DENIES_US = "it is a DENY for everybody or for mirror's own user: it could lock mirror out"
TAKEN_BACK = "the source takes it back, by a DENY that is not copied"  # the DENY follows

# What an ALLOW of an operation also allows: StandardAuthorizerData and AclAuthorizer of Kafka. A DENY denies no more
# than its own operation, or ALL.
_IMPLIED = {
    **dict.fromkeys(("READ", "WRITE", "DELETE", "ALTER"), "DESCRIBE"),
    "ALTER_CONFIGS": "DESCRIBE_CONFIGS",
}


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
    us: Set[str] = frozenset()  # our users on the target, as far as they are known


@dataclass(frozen=True, slots=True)
class AclCopy:
    """What becomes of an ACL of the source."""

    source: Acl
    target: Acl | None  # None: it is not copied
    reason: str = ""  # why it is not copied, or why not as it is
    withheld: Acl | None = None  # what the remote topic would get if no DENY of the source took it back


class Denials:
    """DENYs, to look up which of them takes back something of an ALLOW."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._of_topic: defaultdict[str, list[Acl]] = defaultdict(list)
        self._of_many: list[Acl] = []
        for acl in acls:
            single = acl.pattern == LITERAL and acl.name != "*"
            (self._of_topic[acl.name] if single else self._of_many).append(acl)

    def taking_back(self, allow: Acl) -> Acl | None:
        """The first DENY that takes back something of an ALLOW of a single topic; None if none does."""
        about = [*self._of_topic.get(allow.name, ()), *self._of_many]
        return next((denial for denial in about if _takes_back(denial, allow)), None)


def copies(acls: Collection[Acl], rules: AclRules) -> list[AclCopy]:
    """What becomes of each ACL that is about one of the topics, in order."""
    found = [copy for acl in sorted(acls) if (copy := copy_of(acl, rules)) is not None]
    denials = Denials(copy.source for copy in found if copy.target is None and copy.source.permission != "ALLOW")
    return [_unless_taken_back(copy, denials) for copy in found]


def strangers(
    wanted: Collection[Acl], there: Collection[Acl], named: Collection[str], us: Set[str] = frozenset()
) -> frozenset[str]:
    """The principals of the wanted ACLs that nothing else on the target names.

    `there` has the target's ACLs of topics, `named` the principals that its other ACLs name. A target that gives
    neither tells nothing: an answer that is refused is empty, too.
    """
    if not there and not named:
        return frozenset()
    others = {acl.principal for acl in set(there) - set(wanted)}
    return frozenset({acl.principal for acl in wanted} - others - set(named) - {EVERYBODY} - _principals(us))


def copy_of(acl: Acl, rules: AclRules) -> AclCopy | None:
    """What becomes of one ACL, without a look at the others; None if it is about none of the topics."""
    if acl.pattern == UNKNOWN:
        return AclCopy(acl, None, STRANGE)
    wide = acl.name == "*"
    if wide or acl.pattern == PREFIXED:
        touches = any(wide or name.startswith(acl.name) for name in rules.remotes)
        return AclCopy(acl, None, PATTERN) if touches else None
    remote = rules.remotes.get(acl.name)
    if remote is None:
        return None
    if reason := _obstacle(acl, rules.us):
        return AclCopy(acl, None, reason)
    downgraded = acl.permission == "ALLOW" and acl.operation == "ALL"
    target = replace(acl, name=remote, operation="READ" if downgraded else acl.operation)
    return AclCopy(acl, target, READ_ONLY if downgraded else "")


def _obstacle(acl: Acl, us: Set[str]) -> str:
    """Why an ACL of a single topic is not copied; "" if it is."""
    if UNKNOWN in (acl.operation, acl.permission):
        return STRANGE
    if acl.permission == "ALLOW":
        return WRITE if acl.operation == "WRITE" else ""
    # MirrorMaker copies such a DENY, and may then be locked out itself.
    return DENIES_US if acl.principal in {EVERYBODY, *_principals(us)} else ""


def _principals(users: Set[str]) -> set[str]:
    return {f"{USER}{each}" for each in users}


def _unless_taken_back(copy: AclCopy, denials: Denials) -> AclCopy:
    if copy.target is None or copy.target.permission != "ALLOW":
        return copy
    denial = denials.taking_back(replace(copy.target, name=copy.source.name))
    if denial is None:
        return copy
    return AclCopy(copy.source, None, f"{TAKEN_BACK}: {denial}", withheld=copy.target)


def _takes_back(denial: Acl, allow: Acl) -> bool:
    """True if a DENY may take back something of an ALLOW of a single topic. What is not known may."""
    return (
        _is_about(denial, allow.name)
        and denial.operation in ("ALL", UNKNOWN, allow.operation, _IMPLIED.get(allow.operation))
        and (denial.host == allow.host or "*" in (denial.host, allow.host))
        and not _differ(denial.principal, allow.principal)
    )


def _is_about(denial: Acl, topic: str) -> bool:
    begins = denial.pattern == PREFIXED and topic.startswith(denial.name)
    return begins or denial.name in ("*", topic) or denial.pattern == UNKNOWN


def _differ(one: str, other: str) -> bool:
    """True if these are two single users. Everybody is any user, and who is in a group is not known."""
    users = one.startswith(USER) and other.startswith(USER)
    return users and one != other and EVERYBODY not in (one, other)
