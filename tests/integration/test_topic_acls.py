"""Remote topics get the ACLs of their source topics, but no access for writing. Both clusters have an authorizer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mirror.commands import acl_status
from mirror.commands.check.beside_checks import beside_checks
from mirror.commands.check.canary import canary, command
from mirror.commands.check.inspection import Inspector
from mirror.commands.plan.as_text import shown
from mirror.commands.plan.dry_run import dry_run
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster, start_together
from mirror.kafka.acls import PREFIXED, Acl, AclAdmin
from mirror.settings import Canary, Cluster, Flow, Groups, Heartbeats
from mirror.topics.acl_rules import DENIES_US, PATTERN, READ_ONLY, STRANGE, TAKEN_BACK, UNNAMED, WRITE
from mirror.topics.acl_sync import AclOutcome, AclSync
from mirror.wire.access import access
from mirror.wire.cluster import Cluster as WireCluster
from tests.harness import topics
from tests.harness.acls import allowed
from tests.harness.command import answer
from tests.harness.listeners import also_listen
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.shared_services import Addresses
from tests.harness.waiting import PATIENCE, until
from tests.harness.wire_messages import allow
from tests.unit.test_naming import flow

pytestmark = pytest.mark.slow

LIMITED, PASSWORD = "limited", "not-much-of-one"
CREATE_TOKENS = 13
SYNC = {"sync_acls": True, "sync_acls_interval": "1s"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, LocalCluster, str]]:
    """Source and target with an authorizer, and the address at which the target knows who asks (SASL/PLAIN)."""
    directory = tmp_path_factory.mktemp("guarded")
    both = LocalCluster("guarded-source", directory), LocalCluster("guarded-target", directory)
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    for cluster in both:
        cluster.brokers[0].properties |= {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
        cluster.brokers[0].properties["allow.everyone.if.no.acl.found"] = "false"
    address, properties = also_listen(both[1].brokers[0], "SASL_PLAINTEXT"), both[1].brokers[0].properties
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties |= {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} user_{LIMITED}="{PASSWORD}";',
    }
    start_together(*both)
    yield *both, address
    for cluster in both:
        cluster.stop()


@pytest.fixture
def pair(guarded: tuple[LocalCluster, LocalCluster, str], prefix: str) -> Pair:
    """A flow between them."""
    return Pair(guarded[0].bootstrap, guarded[1].bootstrap, f"a{prefix[-7:-1]}", prefix)


def flow_of(file: Path) -> Flow:
    (flow,) = load(file, {}).flows
    return flow


def give(bootstrap: str, *acls: Acl) -> AclAdmin:
    """Create the ACLs, and wait until the broker tells them. Returns an admin client."""
    admin = AclAdmin(Cluster("any", {"bootstrap.servers": bootstrap}, {}, {}))
    assert not admin.create_acls(acls)
    until("they are there", lambda: set(acls) <= admin.topic_acls())
    return admin


def allow_create_tokens(bootstrap: str, topic: str, principal: str) -> None:
    """Allow an operation that is newer than librdkafka's list. It means nothing on a topic, but brokers take it."""

    async def create() -> int:
        cluster = WireCluster(access({"bootstrap.servers": bootstrap}))
        try:
            return await cluster.ask(allow(topic, principal, CREATE_TOKENS))
        finally:
            cluster.close()

    assert asyncio.run(create()) == 0


def test_remote_topics_get_acls_by_the_rules(pair: Pair, tmp_path: Path) -> None:
    topic, later = pair.topic("t"), pair.topic("later")
    pair.produce(topic, Made(None, b"x"))
    read, whole = Acl(topic, "User:known", "READ", host="10.0.0.1"), Acl(topic, "User:app", "ALL")
    denied = Acl(topic, "User:evil", "READ", "DENY")
    banned = Acl(pair.prefix, "User:bob", "ALL", "DENY", PREFIXED)
    kept = {
        Acl(topic, "User:app", "WRITE"): WRITE,
        Acl(topic, "User:*", "WRITE", "DENY"): DENIES_US,
        banned: PATTERN,
        Acl(topic, "User:bob", "READ"): f"{TAKEN_BACK}: {banned}",
    }
    others = Acl("other", "User:app", "READ")
    source = give(pair.source, read, whole, denied, others, *kept)
    allow_create_tokens(pair.source, topic, "User:app")
    kept[Acl(topic, "User:app", "UNKNOWN")] = STRANGE
    until("all are there", lambda: kept.keys() <= source.topic_acls())
    remote = pair.remote(topic)
    wanted = {
        Acl(remote, "User:known", "READ", host="10.0.0.1"),
        Acl(remote, "User:app", "READ"),
        Acl(remote, "User:evil", "READ", "DENY"),
    }
    # An operator's own, and what others may do: nobody takes it away.
    own = Acl(remote, "User:operator", "WRITE")
    target = give(pair.target, own, Acl("other", "User:known", "READ"))
    # Nothing else on the target names these principals. For User:app, an ACL of a group does.
    unnamed = ["User:evil"]
    app = (pair.target, ResourceType.GROUP, f"{pair.prefix}group", "app", (AclOperation.READ,))
    service = pair.service(tmp_path, SYNC)

    flow = flow_of(service.file)
    lines = shown(dry_run(flow))
    for acl in wanted:
        assert f"create ACL {acl}" in lines
    for acl, reason in kept.items():
        assert f"not copied as on the source, 1 ACL: {acl}: {reason}" in lines
    assert not [acl for acl in target.topic_acls() if acl.name == remote and acl != own], "nothing is created"

    assert f"ACLs for 2 principals: User:app, User:evil: {UNNAMED}" in lines

    began = time.time()
    with allowed(*app), service:
        pair.await_same(topic)
        until("the ACLs", lambda: {acl for acl in target.topic_acls() if acl.name == remote} == wanted | {own})
        service.wait_for("all is logged", lambda: len(service.find("ACL created")) == len(wanted))
        assert {event["acl"] for event in service.find("ACL created")} == {str(acl) for acl in wanted}
        service.wait_for("a round", lambda: service.metric("mirror_topic_acls", outcome="in_step") == 3)
        assert service.metric("mirror_topic_acl_round_timestamp_seconds") > began
        assert service.metric("mirror_topic_acls", outcome="not_copied") == len(kept)
        (view,) = [each["acls"] for each in json.loads(service.get("/status")[1])["flows"]]
        assert {each["acl"]: each["reason"] for each in view["acls"]} == {
            str(whole): READ_ONLY,
            **{str(acl): reason for acl, reason in kept.items()},
        }
        assert view["unnamed_principals"] == unnamed
        (told,) = service.find("ACLs are for principals that the target may lack")
        assert told["principals"] == "User:evil"
        # Nothing is taken away, be it from a topic on the source or because it was an operator's.
        topics.admin(pair.source).delete_acls([_filter(read)])[_filter(read)].result(PATIENCE)
        until("it is gone", lambda: read not in source.topic_acls())
        give(pair.source, Acl(later, "User:known", "DESCRIBE"))
        pair.produce(later, Made(None, b"x"))
        hers = Acl(pair.remote(later), "User:known", "DESCRIBE")
        until("the later topic's", lambda: hers in target.topic_acls())
        assert {acl for acl in target.topic_acls() if acl.name == remote} == wanted | {own}
        said = service.find("ACLs are not copied as they are")
        assert sorted(each["reason"] for each in said) == sorted({READ_ONLY, *kept.values()}), "each is said once"
        (status,) = answer("status", "-c", service.file, "--acls")["flows"]
        assert {each["reason"] for each in status["acls"]["not_in_step"]} == {READ_ONLY, *kept.values()}
        assert status["acls"]["unnamed_principals"] == unnamed
        assert service.terminate() == 0, service.tail()
    assert not service.noise


def _filter(acl: Acl) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        acl.name,
        ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )


def test_what_mirror_may_not_do_is_said(
    pair: Pair, guarded: tuple[LocalCluster, LocalCluster, str], tmp_path: Path
) -> None:
    topic = pair.topic("t")
    give(pair.source, Acl(topic, "User:app", "READ"))
    made = pair.settings(SYNC)
    made["clusters"]["backup"] = {
        "bootstrap.servers": guarded[2],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": LIMITED,
        "sasl.password": PASSWORD,
    }
    file = tmp_path / "limited.yaml"
    file.write_text(json.dumps(made))
    sync = AclSync(flow_of(file))
    remotes = {topic: pair.remote(topic)}
    (found,) = sync.round(remotes)
    assert found.outcome is AclOutcome.MISSING
    assert found.reason.startswith("backup refuses it: ") and found.reason.endswith("allow Alter on the cluster")
    alter = (ResourceType.BROKER, "kafka-cluster", LIMITED, (AclOperation.ALTER,))
    with allowed(pair.target, *alter):
        until("it may create", lambda: [each.outcome for each in sync.round(remotes)] == [AclOutcome.CREATED])
        until("it is there", lambda: [each.outcome for each in sync.compare(remotes)] == [AclOutcome.IN_STEP])


def test_check_says_what_the_canary_lacks(guarded: tuple[LocalCluster, LocalCluster, str], prefix: str) -> None:
    """The cluster that knows who asks is the source here."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
    login |= {"sasl.username": LIMITED, "sasl.password": PASSWORD, "bootstrap.servers": guarded[2]}
    one = flow(source=Cluster(f"c{prefix[-7:-1]}", login, {}, {}), canary=Canary(True, 10.0))
    inspector, named = Inspector(one.source), one.canary_topic

    def found() -> tuple[str, str, str]:
        (each,) = canary(one, inspector, inspector.describe())
        return each.outcome, each.said.split(";")[0], each.remedy

    unseen = ("WARNING", f"{one.source.alias} shows no {named}", f"make sure that this is allowed: {command(one)}")
    assert found() == unseen
    topics.create(guarded[1].bootstrap, named)
    assert found() == unseen
    this = guarded[1].bootstrap, ResourceType.TOPIC, named, LIMITED
    with allowed(*this, (AclOperation.READ,)):  # which includes Describe
        lacking = "WARNING", f"Write is not allowed on {named} of {one.source.alias}", command(one)
        until("Write is lacking", lambda: found() == lacking)
        with allowed(*this, (AclOperation.WRITE,)):
            until("nothing is lacking", lambda: found()[0] == "OK")
    assert PASSWORD not in command(one) and f"--operation Write --topic {named}" in command(one)
    assert not list(canary(flow(source=one.source), inspector, inspector.describe())), "it is off unless asked for"


def test_check_names_each_acl_that_the_work_beside_copying_lacks(
    guarded: tuple[LocalCluster, LocalCluster, str], prefix: str
) -> None:
    """The cluster that knows who asks is both source and target here. Each finding names one ACL, until it is given."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
    login |= {"sasl.username": LIMITED, "sasl.password": PASSWORD, "bootstrap.servers": guarded[2]}
    bootstrap, group = guarded[1].bootstrap, f"{prefix}group"
    source, target = (Cluster(f"{side}{prefix[-7:-1]}", login, {}, {}) for side in "st")
    groups = Groups(sync=True, checkpoints=True, include=(prefix + ".*",), exclude=(), interval=60.0)
    one = flow(
        source=source, target=target, groups=groups, heartbeats=Heartbeats(True, 1.0), sync_acls=True, exactly_once=True
    )
    committed(bootstrap, group, prefix)
    inspector = Inspector(target)

    def found() -> dict[str, tuple[str, str]]:
        both = inspector, inspector.describe()
        return {each.what: (each.outcome, each.said) for each in beside_checks(one, both, both)}

    see, sync = f"groups on {source.alias}", f"groups.sync on {target.alias}"
    beats = f"heartbeats.enabled on {source.alias}"
    acls = [f"sync_acls on {cluster.alias}" for cluster in (source, target)]
    assert inspector.has_authorizer(), "it does not tell its ACLs"
    first = found()
    assert first.keys() == {"consumer groups", beats, *acls}
    assert {outcome for outcome, _ in first.values()} == {"WARNING"}
    assert "Kafka hides those" in first["consumer groups"][1], "a hidden group can't be named"
    assert first[acls[0]][1] == "Describe is not allowed on the cluster"
    assert first[acls[1]][1] == "Alter, Describe is not allowed on the cluster"
    assert first[beats][1].endswith("does not show the topic heartbeats, and Create is not allowed on the cluster")
    may = AclOperation
    cluster = (bootstrap, ResourceType.BROKER, "kafka-cluster", LIMITED)
    with contextlib.ExitStack() as stack:
        stack.enter_context(allowed(*cluster, (may.DESCRIBE,)))
        until("the source's ACLs", lambda: found()[acls[0]] == ("OK", "Describe on the cluster"))
        assert inspector.has_authorizer(), "it tells that it has none on the cluster"
        second = found()
        assert second[acls[1]] == ("WARNING", "Alter is not allowed on the cluster")
        assert second[see] == ("WARNING", f"Describe is not allowed on 1 group: {group}"), "listed, but not readable"
        assert second[sync] == ("WARNING", f"Read is not allowed on 1 group: {group}")
        stack.enter_context(allowed(*cluster, (may.ALTER, may.CREATE)))
        stack.enter_context(allowed(bootstrap, ResourceType.GROUP, group, LIMITED, (may.DESCRIBE,)))
        until("the groups are seen", lambda: found()[see][0] == "OK")
        third = {what: outcome for what, (outcome, _) in found().items()}
        assert third == {see: "OK", sync: "WARNING", beats: "OK", acls[0]: "OK", acls[1]: "OK"}
        stack.enter_context(allowed(bootstrap, ResourceType.GROUP, group, LIMITED, (may.READ,)))
        until("nothing is lacking", lambda: {outcome for outcome, _ in found().values()} == {"OK"})


def committed(bootstrap: str, group: str, prefix: str) -> None:
    """Make a consumer group that has an offset."""
    topic = f"{prefix}read"
    topics.create(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def test_clusters_without_an_authorizer_are_told(_local_brokers: Addresses, prefix: str, tmp_path: Path) -> None:
    plain = Pair(*_local_brokers, f"n{prefix[-7:-1]}", prefix)
    plain.topic("t")
    flow = flow_of(plain.service(tmp_path, SYNC).file)
    assert "WARNING: ACLs can't be copied: " in shown(dry_run(flow))
    assert acl_status.shown(acl_status.read_acls(flow)).startswith(f"ACLs: {plain.alias} gives no ACLs of topics: ")
    off = flow_of(plain.service(tmp_path).file)
    assert "ACL" not in shown(dry_run(off)), "it is off unless asked for"
