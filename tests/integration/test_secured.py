"""A target with SASL and ACLs: what `check` says of it, and that no output of a run has a password."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from mirror.commands import group_status
from mirror.config.load import load as load_settings
from mirror.demo.brokers import LocalCluster, free_port
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_sync import GroupSync
from mirror.groups.lost_topics import lost_topics
from mirror.service.cluster_watch import ClusterWatch
from mirror.settings import Cluster, Flow
from tests.harness import acls, configuration, load, oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.listeners import also_listen
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, PLANNED, Event, Service
from tests.harness.together import in_turn, together
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

USER, PASSWORD, WRONG, UNUSED = "mirror", "xq7-Hunter-target", "xq7-Hunter-wrong", "xq7-Hunter-source"
LIMITED, ITS_PASSWORD = "limited", "xq7-Hunter-limited"
LIMITED_TOO = ("some-topics", "least", "groups")  # users of other scenarios, with the same password
RENEW = 3600.0  # seconds
NO_TOPICS = {"AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAA", "no id", ""}  # ids that no topic has
SECRET = re.compile("xq7-Hunter", re.IGNORECASE)
UI_PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, str]]:
    """A cluster with ACLs that also listens with SASL/PLAIN, and the address of that listener."""
    cluster = LocalCluster("secured", tmp_path_factory.mktemp("secured"))
    (broker,) = cluster.brokers
    address = also_listen(broker, "SASL_PLAINTEXT")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker.properties |= {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{module} user_{USER}="{PASSWORD}" '
            + " ".join(f'user_{user}="{ITS_PASSWORD}"' for user in (LIMITED, *LIMITED_TOO))
            + ";"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER}",
        "transaction.max.timeout.ms": 30_000,
        "offsets.retention.minutes": 1440,
    }
    with cluster:
        yield cluster, address


def settings(pair: Pair, address: str, ui: int, password: str, user: str = USER) -> configuration.Settings:
    made = pair.settings({"transaction_timeout": "30s"}, log={"level": "debug", "format": "json"})
    made["clusters"]["backup"] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "debug": "security",
        "log_level": "7",
    }
    made["clusters"][pair.alias]["sasl.password"] = UNUSED
    made["spark"]["conf"] = {"spark.ui.enabled": "true", "spark.ui.port": str(ui), "spark.mirror.password": UNUSED}
    return made


def page(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_permissions_and_passwords(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    secured: tuple[LocalCluster, str],
    prefix: str,
    tmp_path: Path,
) -> None:
    """Each with a user of its own."""
    together(
        partial(no_output_has_a_password, source_cluster, secured, f"out-{prefix}", tmp_path),
        in_turn(
            partial(
                a_remote_topic_that_may_not_be_described_fails_alone, source_cluster, secured, f"a-{prefix}", tmp_path
            ),
            partial(what_the_readme_asks_for_is_enough, source_cluster, secured, f"least-{prefix}", tmp_path),
            partial(the_source_refuses_a_groups_offsets, target_cluster, secured, f"g-{prefix}", tmp_path),
        ),
        partial(
            where_the_source_hides_its_control_topics_circles_are_a_doubt,
            *(target_cluster, secured, f"hides-{prefix}", tmp_path),
        ),
    )


def no_output_has_a_password(
    source_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    cluster, address = secured
    pair = Pair(source_cluster.bootstrap, cluster.bootstrap, "plain", prefix)
    topic, ui = pair.topic("t"), free_port()
    pair.produce(topic, Made(None, b"one"), Made(b"k", b"two"))
    outputs: dict[str, str] = {}
    environment = {"MIRROR_TEST_PASSWORD": PASSWORD}
    with Service(settings(pair, address, ui, "${env:MIRROR_TEST_PASSWORD}"), tmp_path, environment) as service:
        service.wait_for("copied", lambda: service.metric("mirror_source_records_total", topic=topic) == 2)
        service.wait_for("logged in", lambda: service.metric("mirror_cluster_reachable", cluster="backup") == 1)
        assert service.metric("mirror_authentication_errors_total") == 0
        for path in ("/metrics", "/status", "/readyz", "/livez", "/"):
            outputs[f"http {path}"] = service.get(path)[1]
        for path in UI_PAGES:
            outputs[f"Spark UI {path}"] = page(ui, f"{path}/")
        (application,) = re.findall(r'"id" : "([^"]+)"', page(ui, "api/v1/applications"))
        for path in ("environment", "jobs", "stages", "allexecutors", "sql"):
            outputs[f"Spark API {path}"] = page(ui, f"api/v1/applications/{application}/{path}")
        assert "spark.ui.port" in outputs["Spark UI environment"], "the page is there"
        for process in service.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # a worker of Spark that had nothing to do
                outputs[f"command line {process.pid}"] = " ".join(process.cmdline())
        for name in ("mirror-control", "mirror-status", "mm2-offset-syncs"):
            outputs[name] = repr(oracle.read(pair.target, f"{name}.{pair.alias}.internal"))
        # Then, commands and errors.
        for verb in ("status", "check", "plan", "verify", "pause"):
            ended = mirror(verb, "-c", file_of(tmp_path, settings(pair, address, free_port(), PASSWORD)))
            assert ended.returncode == 0, (verb, ended.stdout + ended.stderr)
            outputs[verb] = ended.stdout + ended.stderr
        assert "header names" not in outputs["verify"], "it logs in by itself"
        service.wait_for("the result is known", lambda: service.metric("mirror_verify_equal") == 1)
        assert service.metric("mirror_verify_differences") == 0
        assert 0 < time.time() - service.metric("mirror_verify_timestamp_seconds") < 600
        assert service.terminate() == 0
        outputs["log"] = "\n".join(service.lines)
        assert any(event["level"] == "DEBUG" for event in service.events)
    wrong = mirror("check", "-c", file_of(tmp_path, settings(pair, address, free_port(), WRONG)))
    assert wrong.returncode == 1
    assert "FAILED" in wrong.stdout and "uthentication" in wrong.stdout, wrong.stdout
    outputs["check with a wrong password"] = wrong.stdout + wrong.stderr
    outputs["watch with a wrong password"] = refused_login(settings(pair, address, ui, WRONG)["clusters"]["backup"])
    assert all(outputs.values())
    assert [name for name, text in outputs.items() if SECRET.search(text)] == []


def refused_login(properties: dict[str, str]) -> str:
    """What is known of a cluster that refuses the login, once that was counted."""
    stopping = threading.Event()
    watch = ClusterWatch(Cluster("backup", properties, {}, {}), stopping)
    watch.start()
    try:
        until("it does not answer", lambda: watch.status.reachable is False)
    finally:
        stopping.set()
    assert watch.status.authentication_errors > 0
    assert "uthentication" in watch.status.reason
    watch.join(PATIENCE)
    return repr(watch.status)


def file_of(directory: Path, content: configuration.Settings) -> Path:
    return Service(content, directory).file


def found(directory: Path, content: configuration.Settings, code: int) -> dict[str, tuple[str, str]]:
    """Outcome and words of each check of the flow."""
    checks = answer("check", "-c", file_of(directory, content), code=code)["checks"]
    assert all(check["remedy"] for check in checks if check["outcome"] == "WARNING")
    return {check["what"]: (check["outcome"], check["said"]) for check in checks}


def test_check_says_what_is_missing(
    source_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    cluster, address = secured
    pair = Pair(source_cluster.bootstrap, cluster.bootstrap, "checked", prefix)
    topic = pair.topic("t", 2)
    topics.create(pair.target, pair.remote(topic), 2, max_message_bytes=1000)
    good = settings(pair, address, 4040, PASSWORD)
    before = topics.admin(pair.target).list_topics(timeout=30).topics.keys()
    checks = found(tmp_path, good, code=0)
    # A broker that is asked for a group makes its own topic for the groups.
    made = topics.admin(pair.target).list_topics(timeout=30).topics.keys() - before - {"__consumer_offsets"}
    assert not made, "nothing is created"
    warnings = {what for what, (outcome, _) in checks.items() if outcome == "WARNING"}
    lone = {"replicas of internal topics", "replicas of remote topics"}  # there is one broker
    assert warnings == {"transactional ids", "positions", "message sizes", *lone}, checks
    assert topic in checks["message sizes"][1] and "1 days" in checks["positions"][1]
    assert checks["API versions"] == ("OK", "new enough to be a target")

    long = {**good, "flows": [{**good["flows"][0], "transaction_timeout": "40s"}]}
    assert found(tmp_path, long, code=1)["transaction timeout"] == (
        "FAILED",
        "transaction_timeout is 40 s, the target allows 30 s",
    )

    same = {**good, "clusters": {**good["clusters"], pair.alias: {"bootstrap.servers": cluster.bootstrap}}}
    assert found(tmp_path, same, code=1)["clusters"][0] == "FAILED"

    limited = found(tmp_path, settings(pair, address, 4040, ITS_PASSWORD, LIMITED), code=1)
    assert limited["the position's group"] == ("FAILED", f"Read is not allowed on 1 group: {pair.group}")
    assert limited["creating topics"][0] == "WARNING"

    future = int((time.time() + 3600) * 1000)
    pair.produce(topic, Made(None, b"from the future"), timestamp=future)
    assert found(tmp_path, good, code=0)["clocks"][0] == "WARNING"


def a_remote_topic_that_may_not_be_described_fails_alone(
    source_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    user = LIMITED_TOO[0]
    cluster, address = secured
    pair = Pair(source_cluster.bootstrap, cluster.bootstrap, "hidden", prefix)
    hidden, other = pair.topic("hidden"), pair.topic("other")
    for topic in (hidden, other):
        pair.produce(topic, Made(None, b"value"))
    topics.create(pair.target, pair.remote(hidden))
    with contextlib.ExitStack() as stack:
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
            stack.enter_context(acls.allowed(pair.target, kind, "*", user))
        stack.enter_context(acls.allowed(pair.target, ResourceType.BROKER, "kafka-cluster", user))
        limited = settings(pair, address, free_port(), ITS_PASSWORD, user)
        with Service(limited, tmp_path) as service:
            with acls.forbidden(pair.target, ResourceType.TOPIC, pair.remote(hidden), AclOperation.DESCRIBE):
                service.wait_for("the other", lambda: oracle.count(pair.copied(other)) == 1)
                assert "uthorization failed" in service.wait_for_event(BLOCKED, topic=hidden)["reason"]
                service.wait_for("shown", lambda: hidden in service.get("/readyz")[1])
                (flow,) = load_settings(service.file).flows
                known = topics.topic_id(pair.target, pair.remote(hidden))
                assert lost_topics(flow.target, [known, *NO_TOPICS]) == NO_TOPICS
            pair.await_same(hidden)
            the_target_refuses_a_groups_offset(pair, flow, other)
            assert service.terminate() == 0, service.tail()


def the_target_refuses_a_groups_offset(pair: Pair, flow: Flow, topic: str) -> None:
    """Group sync says why, and commits it as soon as it may."""
    group = f"{pair.prefix}refused"
    topics.commit(pair.source, group, topic, {0: 1})
    groups = replace(flow.groups, sync=True, include=(group,))
    with contextlib.closing(GroupSync(replace(flow, groups=groups))) as sync:
        with acls.forbidden(pair.target, ResourceType.GROUP, group, AclOperation.READ):
            (one,) = sync.round(RENEW)
            assert (one.outcome, one.committed) == (GroupOutcome.DENIED, None)
            assert group in one.reason and "uthorization failed" in one.reason
        until("it is committed", lambda: [each.outcome for each in sync.round(RENEW)] == [GroupOutcome.EXACT])


def the_source_refuses_a_groups_offsets(
    target_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    """mirror may describe the cluster, so it sees the group; it may not describe the group, so it sees no offset."""
    cluster, address = secured
    pair, user = Pair(cluster.bootstrap, target_cluster.bootstrap, "sees", prefix), LIMITED_TOO[2]
    group, topic = f"{prefix}refused", pair.topic("t")
    topics.commit(pair.source, group, topic, {0: 0})
    limited = pair.settings({"groups": {"sync": True, "include": [group]}})
    secret = settings(pair, address, 4040, ITS_PASSWORD, user)["clusters"]["backup"]
    limited["clusters"][pair.alias] = {key: value for key, value in secret.items() if key not in ("debug", "log_level")}
    (flow,) = load_settings(file_of(tmp_path, limited)).flows
    with contextlib.ExitStack() as stack:
        for kind, name in ((ResourceType.BROKER, "kafka-cluster"), (ResourceType.TOPIC, topic)):
            stack.enter_context(acls.allowed(pair.source, kind, name, user, (AclOperation.DESCRIBE,)))
        sync = stack.enter_context(contextlib.closing(GroupSync(flow)))
        refused = until("the group is seen", lambda: sync.round(RENEW) or sync.refused)
        assert list(refused) == [group] and "GROUP_AUTHORIZATION_FAILED" in sync.refused[group]
        found = group_status.read_groups(flow)
        assert list(found.refused) == [group] and "denied" in group_status.shown(found)


def what_the_readme_asks_for_is_enough(
    source_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    user = LIMITED_TOO[1]
    cluster, address = secured
    pair = Pair(source_cluster.bootstrap, cluster.bootstrap, "least", prefix)
    topic = pair.topic("t", retention_ms=987_654_321)
    pair.produce(topic, Made(None, b"value"))
    topics.create(pair.target, pair.remote(topic))
    may = AclOperation
    limited = settings(pair, address, free_port(), ITS_PASSWORD, user)
    limited["flows"][0]["sync_topic_configs_interval"] = "1s"
    with contextlib.ExitStack() as stack:
        for acl in printed_for(tmp_path, limited, address):
            stack.enter_context(acls.allowed(pair.target, *acl))
        with Service(limited, tmp_path) as service:
            pair.await_same(topic)
            checks = found(tmp_path, limited, code=0)
            assert checks["permissions on the target"] == ("OK", "Describe, Read, Write on 1 topic")
            assert checks["timestamps"] == ("WARNING", f"not known for {pair.remote(topic)}")
            topics.grow(pair.source, topic, 2)
            pair.produce(topic, Made(None, b"more"), partition=1)
            pair.await_same(topic)
            unknown = "whether remote topics replace timestamps can't be read, allow DescribeConfigs on them"
            assert len(service.find(unknown)) == 1, "said once, and copying goes on"
            kept = "for how long the target keeps positions can't be told, an interval is assumed"
            assert [each["seconds"] for each in service.find(kept)] == [24 * 3600]
            for operation in (may.DESCRIBE_CONFIGS, may.ALTER_CONFIGS):
                await_not_in_step(service, topic, operation)
                remote = (ResourceType.TOPIC, pair.remote(topic), user, (operation,))
                stack.enter_context(acls.allowed(pair.target, *remote))
            wanted = ("retention.ms", "987654321")
            service.wait_for("in step", lambda: wanted in topics.configuration(pair.target, pair.remote(topic)).items())
            pair.await_same(topic)
            assert service.terminate() == 0, service.tail()
        pair.assert_settled(topic)


def printed_for(
    directory: Path, content: configuration.Settings, address: str, reasons: str = ", needed: "
) -> Iterator[acls.Granted]:
    """What `check --acls` prints for these reasons on this cluster, for `acls.allowed`."""
    lines = mirror("check", "-c", file_of(directory, content), "--acls").stdout.splitlines()
    for reason, command in pairwise(lines):
        if command.startswith(f"kafka-acls.sh --bootstrap-server {address} ") and reasons in reason:
            yield from acls.of_command(command)


def await_not_in_step(service: Service, topic: str, lacking: AclOperation) -> None:
    """Wait until it says that the configuration of this one topic is not in step; it says so once for each reason."""
    name = "".join(word.title() for word in lacking.name.split("_"))

    def said() -> list[Event]:
        found = service.find("topic configurations are not in step; copying goes on, each round tries again")
        return [each for each in found if each["reason"].endswith(f"; allow {name}")]

    (event,) = service.wait_for(f"{name} is lacking", said)
    assert (event["topics"], event["count"]) == (topic, 1)
    round_ = "mirror_topic_config_round_timestamp_seconds"
    before = service.metric(round_)
    service.wait_for("another round", lambda: service.metric(round_) > before)
    assert len(said()) == 1
    outcome = "hidden" if lacking is AclOperation.DESCRIBE_CONFIGS else "different"
    assert service.metric("mirror_topic_configs", outcome=outcome) == 1
    # Of a partition that has just been added no report may have come yet.
    service.wait_for("ready all the same", lambda: service.get("/readyz")[0] == 200)


def where_the_source_hides_its_control_topics_circles_are_a_doubt(
    target_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    cluster, address = secured
    pair = Pair(cluster.bootstrap, target_cluster.bootstrap, f"hides-{prefix[-7:-1]}", prefix)
    topic, other = pair.topic("t"), f"mirror-control.other-{prefix[-7:-1]}.internal"
    pair.produce(topic, Made(None, b"value"))
    limited = pair.settings()
    secret = settings(pair, address, 4040, ITS_PASSWORD, LIMITED)["clusters"]["backup"]
    limited["clusters"][pair.alias] = {key: value for key, value in secret.items() if key not in ("debug", "log_level")}
    read = (AclOperation.READ, AclOperation.DESCRIBE)

    def doubts(*allowed: AclOperation) -> list[str]:
        """What `check` says of other flows, where all may be done with control topics that is `allowed`."""
        with contextlib.ExitStack() as stack:
            if allowed:
                may = acls.allowed(
                    cluster.bootstrap, ResourceType.TOPIC, "mirror-", LIMITED, allowed, ResourcePatternType.PREFIXED
                )
                stack.enter_context(may)
            checks = answer("check", "-c", file_of(tmp_path, limited))["checks"]
        said = [c["said"] for c in checks if (c["what"], c["outcome"]) == ("other flows", "WARNING")]
        # Not of control topics that tests before this one have left.
        return [each for each in said if other in each or "mirror-control.backup." in each]

    with acls.allowed(cluster.bootstrap, ResourceType.TOPIC, prefix, LIMITED, read, ResourcePatternType.PREFIXED):
        assert doubts() == [
            "mirror-control.backup.internal of " + pair.alias + " can't be read (Describe is not allowed)"
        ]
        topics.create(cluster.bootstrap, other)
        load.produce(cluster.bootstrap, other, [Made(b"plan", b"{}")])
        assert doubts(AclOperation.DESCRIBE) == [f"{other} of {pair.alias} can't be read (Read is not allowed)"]
        assert doubts(*read) == [
            f"{other} of {pair.alias} has no plan that can be decoded (topics is not a JSON object)"
        ]
        topics.delete(cluster.bootstrap, other)
        assert doubts(*read) == []
        limited["flows"][0]["canary"] = {"enabled": True, "interval": "1s"}
        (for_canary,) = printed_for(tmp_path, limited, address, ", optional: canary.enabled: ")
        with acls.allowed(cluster.bootstrap, *for_canary), Service(limited, tmp_path) as service:
            pair.await_same(topic)
            what_is_printed_for_the_canary_is_enough(pair, service)
            looked = len(service.find(PLANNED))
            added = pair.topic("added")
            service.wait_for("it has looked again", lambda: len(service.find(PLANNED)) > looked)
            pair.await_same(added)
            (said,) = service.find("another flow may conflict")
            assert "cycles" in said["reason"] and "can't be ruled out" in said["reason"]
            assert service.terminate() == 0, service.tail()


def what_is_printed_for_the_canary_is_enough(pair: Pair, service: Service) -> None:
    """Its topic is created, written and read by a user that has no more than these ACLs on it."""
    service.wait_for("a canary", lambda: service.metric("mirror_canary_seconds") > 0)
    assert topics.partitions(pair.source, f"mirror-canary.{pair.alias}.internal") == 1
