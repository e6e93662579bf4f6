"""Copies ACLs of source topics to remote topics. It only ever adds ACLs: none is deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from mirror.errors import FlowError
from mirror.kafka.acls import Acl, AclAdmin
from mirror.kafka.credentials import properties_of
from mirror.settings import Cluster, Flow
from mirror.topics.acl_rules import AclCopy, AclRules, Denials, copies, own_user, strangers

Answered = TypeVar("Answered")


class AclOutcome(StrEnum):
    """How an ACL of the source stands on the target."""

    IN_STEP = "in_step"  # the target has it
    CREATED = "created"  # it was missing, and was created
    MISSING = "missing"  # it is missing: the target refuses it, or nothing was to be created
    NOT_COPIED = "not_copied"  # by a rule


@dataclass(frozen=True, slots=True)
class AclStatus:
    """How one ACL of the source stands on the target."""

    source: Acl
    target: Acl | None  # None: it is not copied
    outcome: AclOutcome
    reason: str = ""  # why it is missing or not copied, or why not as it is
    stays: bool = False  # True if the target has it from before a DENY of the source took it back
    stranger: bool = False  # True if nothing else on the target names the principal: the target may lack it


class AclSync:
    """Compares the ACLs of both clusters, and creates those that are missing on the target."""

    def __init__(self, flow: Flow) -> None:
        self._source, self._target = AclAdmin(flow.source), AclAdmin(flow.target)
        self._login = flow.target

    def compare(self, remotes: Mapping[str, str]) -> list[AclStatus]:
        """How each ACL of these topics stands; `remotes` has the remote topics. Changes nothing.

        Raises ClusterAway, or FlowError if the source gives no ACL at all.
        """
        acls = _acls(self._source)
        if not acls:  # confluent-kafka 2.16 gives no error, but an empty answer
            why = "there are none, or no authorizer, or mirror may not Describe the cluster"
            raise FlowError(f"{self._source.alias} gives no ACLs of topics: {why}")
        there = _acls(self._target)
        us = own_users(self._login) - {""}
        found = copies(acls, AclRules(remotes, us))
        wanted = {each.target for each in found if each.target is not None}
        unknown = strangers(wanted, there, _named(self._target), us)
        return [_status(each, there, unknown) for each in found]

    def round(self, remotes: Mapping[str, str]) -> list[AclStatus]:
        """Compare, and create what is missing. Raises ClusterAway or FlowError."""
        found = self.compare(remotes)
        wanted = {each.target for each in found if each.outcome is AclOutcome.MISSING and each.target is not None}
        reasons = self._create(wanted)
        return [_created(each, reasons) if each.target in wanted else each for each in found]

    def _create(self, wanted: Collection[Acl]) -> dict[Acl, str]:
        """Create ACLs, and return why some are still missing.

        DENYs come first. An ALLOW has to wait while the target refuses a DENY that takes something of it back.
        """
        denials = {acl for acl in wanted if acl.permission == "DENY"}
        missing = self._refusals(denials)
        refused, held = Denials(sorted(missing)), {}
        for allow in set(wanted) - denials:
            if denial := refused.taking_back(allow):
                held[allow] = f"{self._target.alias} refuses a DENY that takes it back: {denial}"
        return missing | held | self._refusals(set(wanted) - denials - held.keys())

    def _refusals(self, wanted: Collection[Acl]) -> dict[Acl, str]:
        """Create ACLs, and return why the target refuses some."""
        refused = self._target.create_acls(sorted(wanted)) if wanted else {}
        return {acl: f"{self._target.alias} refuses it: {_said(error)}" for acl, error in refused.items()}


def own_users(target: Cluster) -> frozenset[str]:
    """Our users on the target, as clients log in now; "" among them if a client's user is not known.

    `producer` may give a login of its own to those who write, and a user's name may be in a file.
    """
    properties = properties_of(target)
    return frozenset({own_user(properties), own_user({**properties, **target.producer})})


def unnamed_principals(found: Iterable[AclStatus]) -> list[str]:
    """The principals of copied ACLs that the target may lack, in order."""
    return sorted({each.target.principal for each in found if each.stranger and each.target is not None})


def _acls(cluster: AclAdmin) -> set[Acl]:
    return _answer(cluster, cluster.topic_acls)


def _named(cluster: AclAdmin) -> set[str]:
    return _answer(cluster, cluster.principals)


def _answer(cluster: AclAdmin, ask: Callable[[], set[Answered]]) -> set[Answered]:
    try:
        return ask()
    except KafkaException as error:
        code = error.args[0].code()
        remedy = "; allow Describe on the cluster" if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED else ""
        raise FlowError(f"{cluster.alias} does not give its ACLs: {error.args[0].str()}{remedy}") from None


def _said(error: KafkaError) -> str:
    denied = error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    return f"{error.str()}{'; allow Alter on the cluster' if denied else ''}"


def _created(each: AclStatus, reasons: Mapping[Acl, str]) -> AclStatus:
    reason = None if each.target is None else reasons.get(each.target)
    return replace(each, outcome=AclOutcome.CREATED) if reason is None else replace(each, reason=reason)


def _status(each: AclCopy, there: Collection[Acl], unknown: Collection[str]) -> AclStatus:
    if each.target is None:
        stays = each.withheld in there
        remedy = f"; the target still has {each.withheld}: delete it there, because mirror deletes no ACL"
        return AclStatus(each.source, None, AclOutcome.NOT_COPIED, each.reason + (remedy if stays else ""), stays)
    outcome = AclOutcome.IN_STEP if each.target in there else AclOutcome.MISSING
    return AclStatus(each.source, each.target, outcome, each.reason, stranger=each.target.principal in unknown)
