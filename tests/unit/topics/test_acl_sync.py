"""What is created on the target, in which order, and what is said of ACLs that it has and should not have."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from mirror.kafka import credentials
from mirror.kafka.acls import Acl
from mirror.kafka.credentials import credentials_of
from mirror.model import Topic
from mirror.settings import Cluster
from mirror.topics import acl_sync
from mirror.topics.acl_rounds import AclRound, AclRounds
from mirror.topics.acl_rules import DENIES_US, TAKEN_BACK
from mirror.topics.acl_sync import AclOutcome, AclSync
from mirror.topics.trusted import Trusted
from tests.harness.waiting import until
from tests.unit.test_naming import flow

REMOTES = {"orders": "primary.orders"}
READ = Acl("orders", "User:bob", "READ")
EVERYBODY = Acl("orders", "User:*", "READ")
DENIED = Acl("orders", "User:bob", "READ", "DENY")
NOT_COPIED = Acl("orders", "User:*", "READ", "DENY")


def remote(acl: Acl) -> Acl:
    """The ACL on the remote topic."""
    return replace(acl, name="primary.orders")


class Clusters:
    """Stands for both clusters: their ACLs, and those that the target refuses."""

    def __init__(self) -> None:
        self.acls: dict[str, set[Acl]] = {"primary": set(), "backup": set()}
        self.refused: set[Acl] = set()
        self.created: list[list[Acl]] = []

    def admin(self, cluster: Cluster) -> Admin:
        return Admin(self, cluster.alias)


class Admin:
    """Stands for AclAdmin."""

    def __init__(self, clusters: Clusters, alias: str) -> None:
        self.alias = alias
        self._clusters = clusters

    def topic_acls(self) -> set[Acl]:
        return set(self._clusters.acls[self.alias])

    def principals(self) -> set[str]:
        return set()

    def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError]:
        wanted = list(acls)
        self._clusters.created.append(wanted)
        refused = self._clusters.refused & set(wanted)
        self._clusters.acls[self.alias] |= set(wanted) - refused
        return {acl: KafkaError(KafkaError.INVALID_REQUEST, "no") for acl in refused}


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    found = Clusters()
    monkeypatch.setattr(acl_sync, "AclAdmin", found.admin)
    return found


def outcomes(sync: AclSync) -> dict[Acl, tuple[AclOutcome, str]]:
    """What a round says of each ACL of the source."""
    return {each.source: (each.outcome, each.reason) for each in sync.round(REMOTES)}


def test_denys_are_created_before_allows(clusters: Clusters) -> None:
    clusters.acls["primary"] = {READ, EVERYBODY, DENIED}
    assert {outcome for outcome, _ in outcomes(AclSync(flow())).values()} == {AclOutcome.CREATED}
    assert clusters.created == [[remote(DENIED)], sorted([remote(READ), remote(EVERYBODY)])]


def test_an_allow_waits_while_the_target_refuses_the_deny_that_takes_it_back(clusters: Clusters) -> None:
    other = Acl("orders", "User:ann", "READ")
    clusters.acls["primary"] = {READ, EVERYBODY, DENIED, other}
    clusters.refused = {remote(DENIED)}
    sync = AclSync(flow())
    waits = AclOutcome.MISSING, f"backup refuses a DENY that takes it back: {remote(DENIED)}"
    refusal = AclOutcome.MISSING, "backup refuses it: no"
    created = AclOutcome.CREATED, ""
    assert outcomes(sync) == {READ: waits, EVERYBODY: waits, DENIED: refusal, other: created}
    assert clusters.acls["backup"] == {remote(other)}
    clusters.refused = set()
    assert outcomes(sync) == {READ: created, EVERYBODY: created, DENIED: created, other: (AclOutcome.IN_STEP, "")}


def login(user: str) -> dict[str, str]:
    """The properties of a login with a password."""
    return {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": user}


def test_no_user_of_ours_gets_a_deny_neither_who_asks_nor_who_writes(clusters: Clusters) -> None:
    denials = {name: Acl("orders", f"User:{name}", "WRITE", "DENY") for name in ("asks", "writes", "bob")}
    clusters.acls["primary"] = set(denials.values())
    target = Cluster("backup", login("asks"), {}, {"sasl.username": "writes"})
    assert outcomes(AclSync(flow(target=target))) == {
        denials["asks"]: (AclOutcome.NOT_COPIED, DENIES_US),
        denials["writes"]: (AclOutcome.NOT_COPIED, DENIES_US),
        denials["bob"]: (AclOutcome.CREATED, ""),
    }


def test_each_round_takes_the_user_that_the_file_has_now(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LOOK_INTERVAL", 0.0)
    file = tmp_path / "user"
    file.write_text("before")
    denial = Acl("orders", "User:after", "WRITE", "DENY")
    clusters.acls["primary"] = {denial}
    target = Cluster("backup", login("before"), {}, {}, files={"sasl.username": str(file)})
    sync = AclSync(flow(target=target))
    (found,) = sync.compare(REMOTES)
    assert found.outcome is AclOutcome.MISSING
    file.write_text("after")
    until("the service's clients notice it", lambda: credentials_of(target).version == 1)
    assert outcomes(sync) == {denial: (AclOutcome.NOT_COPIED, DENIES_US)}


def status(found: Collection[AclRound], acl: Acl) -> str:
    """The newest reason of an ACL, "" if it has none."""
    return next((each.reason for last in list(found)[-1:] for each in last.acls if each.source == acl), "")


def test_an_allow_that_was_copied_before_the_deny_came_stays_and_is_named(
    clusters: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    clusters.acls["primary"] = {READ}
    trusted = Trusted({"orders": Topic("primary.orders", "id", 1, 0)}, frozenset())
    found: list[AclRound] = []
    rounds = AclRounds(replace(flow(), sync_acls=True, sync_acls_interval=0.01), lambda: trusted, found.append)
    with caplog.at_level(logging.INFO):
        rounds.start()
        until("it is copied", lambda: clusters.acls["backup"] == {remote(READ)})
        clusters.acls["primary"] = {READ, NOT_COPIED}
        reason = f"{TAKEN_BACK}: {NOT_COPIED}"
        stays = f"{reason}; the target still has {remote(READ)}: delete it there, because mirror deletes no ACL"
        until("it is named", lambda: status(found, READ) == stays)
        assert clusters.acls["backup"] == {remote(READ)}, "mirror deletes none"
        clusters.acls["backup"] = set()
        until("an operator has deleted it", lambda: status(found, READ) == reason)
        rounds.stop()
        until("it has ended", lambda: rounds._thread.join(0.1))
    assert not clusters.acls["backup"], "it is not created again"
    (warning,) = (each for each in caplog.records if each.levelno == logging.WARNING)
    assert warning.message == "the target still allows what the source denies now; the reason says what to delete"
    assert (vars(warning)["reason"], vars(warning)["acls"]) == (stays, str(READ))
