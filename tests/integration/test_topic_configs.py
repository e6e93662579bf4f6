"""Configurations of remote topics follow those of their source topics while the service runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, ResourceType

from mirror.commands import config_status
from mirror.commands.plan.as_text import shown
from mirror.commands.plan.dry_run import dry_run
from mirror.config.load import load
from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.kafka.topic_configs import Config, ConfigValue, TopicConfigAdmin
from mirror.kafka.topic_creation import ANY_TIME
from mirror.service.topic_monitor import TopicMonitor
from mirror.target.timestamps import KEEP
from mirror.topics.config_rules import EXCLUDED_CONFIGS, EXCLUDED_PREFIXES, Rules
from tests.harness import configuration, topics
from tests.harness.command import answer, decide
from tests.harness.load import Made, produce
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, Service
from tests.harness.shared_services import Addresses
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

LEFT_OUT = "remote topics are created without keys that the target does not know"
UNKNOWN = {"redpanda.remote.read": "true", "a.newer.key": "1"}
ALTERED = "topic configuration altered"
SOON = {"sync_topic_configs_interval": "1s"}
# Nobody's business but a cluster's: on the source they have other values than those that mirror sets or leaves.
CLUSTERS_OWN = {
    "min_insync_replicas": 1,
    "unclean_leader_election_enable": "true",
    "message_timestamp_type": "LogAppendTime",
    "message_timestamp_before_max_ms": 5_000_000_000_000,
    "message_timestamp_after_max_ms": 5_000_000_000_000,
    "leader_replication_throttled_replicas": "*",
    "follower_replication_throttled_replicas": "*",
    "local_retention_ms": 1_000,
    "local_retention_bytes": 1_000,
}
UNKNOWN_THERE = "Unknown topic config name"
# What Kafka 4.2 without tiered storage answers to a value of each key that is never copied; "": it would take it.
ANSWERS = {
    ("confluent.tier.enable", "true"): UNKNOWN_THERE,
    ("follower.replication.throttled.replicas", "*"): "",
    ("leader.replication.throttled.replicas", "*"): "",
    ("local.retention.bytes", "1000"): "",
    ("local.retention.ms", "1000"): "",
    ("message.downconversion.enable", "true"): UNKNOWN_THERE,
    ("message.format.version", "3.0-IV1"): UNKNOWN_THERE,
    ("message.timestamp.after.max.ms", "1"): "",
    ("message.timestamp.before.max.ms", "1"): "",
    ("message.timestamp.difference.max.ms", "1"): UNKNOWN_THERE,
    ("message.timestamp.type", "LogAppendTime"): "",
    ("min.insync.replicas", "2"): "",
    ("remote.log.copy.disable", "true"): "",
    ("remote.log.delete.on.disable", "true"): "",
    ("remote.storage.enable", "true"): "Tiered Storage functionality is disabled in the broker",
    ("unclean.leader.election.enable", "true"): "",
}


def own(bootstrap: str, topic: str) -> dict[str, str]:
    """What is set on the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = topics.admin(bootstrap).describe_configs([resource])[resource].result(PATIENCE)
    itself = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in entries.items() if entry.source == itself}


def unset(bootstrap: str, topic: str, key: str) -> None:
    """Remove a key from a topic, and wait until it is gone."""
    entry = ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    topics.admin(bootstrap).incremental_alter_configs([resource])[resource].result(PATIENCE)
    until(f"{key} of {topic} is gone", lambda: key not in own(bootstrap, topic))


def await_own(pair: Pair, topic: str, **wanted: object) -> None:
    """Wait until these keys are set on the remote topic; None: it is not set there."""
    named = {key.replace("_", "."): None if value is None else str(value) for key, value in wanted.items()}

    def there() -> bool:
        found = own(pair.target, pair.remote(topic))
        return all(found.get(key) == value for key, value in named.items())

    until(f"{named} on {pair.remote(topic)}", there)


@pytest.fixture(scope="module")
def flows(_local_brokers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Pair, Service]]:
    """A flow with MirrorMaker's default, and one with the source's defaults and a list; one service, not started."""
    plain = Pair(*_local_brokers, "cplain", "configs-plain-")
    other = Pair(*_local_brokers, "cother", "configs-other-")
    settings = configuration.together(
        plain.settings(SOON), other.settings({**SOON, "use_defaults_from": "source", "exclude_configs": ["segment.*"]})
    )
    service = Service(settings, tmp_path_factory.mktemp("configs"))
    yield plain, other, service
    service.close()


def test_what_would_be_changed_is_shown_before_the_first_start(flows: tuple[Pair, Pair, Service]) -> None:
    plain, _, service = flows
    topic, lost = plain.topic("early", retention_ms=111, segment_ms=222), plain.topic("filled", retention_ms=1)
    topics.create(plain.target, plain.remote(topic), retention_ms=333, max_compaction_lag_ms=444)
    topics.create(plain.target, plain.remote(lost))
    # Records that nobody has copied there: until somebody decides, it is not the copy of this topic.
    produce(plain.target, plain.remote(lost), [Made(None, b"x")])
    before = own(plain.target, plain.remote(topic))

    flow, _ = load(service.file, {}).flows
    found = dry_run(flow)
    (altered,) = found.configs  # nothing of a topic that would be blocked
    assert (altered.remote, altered.outcome, altered.reason) == (plain.remote(topic), "different", "")
    assert {change.key: (change.before, change.now) for change in altered.changes} == {
        "max.compaction.lag.ms": ("444", None),
        "retention.ms": ("333", "111"),
        "segment.ms": ("604800000", "222"),
    }
    assert f"alter {plain.remote(topic)}: retention.ms=111 (was 333)" in shown(found)
    assert f"alter {plain.remote(topic)}: max.compaction.lag.ms removed (was 444)" in shown(found)
    assert len(answer("plan", "-c", service.file, "--flow", plain.flow)["flows"][0]["configs"][0]["changes"]) == 3
    (status,) = answer("status", "-c", service.file, "--flow", plain.flow, "--configs", code=1)["flows"]
    assert {each["topic"] for each in status["configs"]["not_in_step"]} == {topic, lost}
    assert "max.compaction.lag.ms" in config_status.shown(config_status.read_configs(flow))
    assert own(plain.target, plain.remote(topic)) == before, "nothing is altered"

    service.start().await_plan()
    await_own(plain, topic, retention_ms=111, segment_ms=222, max_compaction_lag_ms=None)
    event = service.wait_for_event(ALTERED, topic=topic)
    assert "retention.ms=111 (was 333)" in event["changes"], "so that it can be undone"
    plain.produce(lost, Made(None, b"x"))
    service.wait_for_event(BLOCKED, topic=lost)
    assert "retention.ms" not in own(plain.target, plain.remote(lost))
    assert not service.find(ALTERED, topic=lost)


def test_later_changes_are_followed(flows: tuple[Pair, Pair, Service]) -> None:
    plain, _, service = flows
    topic = plain.topic("later", retention_ms=1_000_000)
    plain.produce(topic, Made(None, b"x"))
    plain.await_same(topic)
    await_own(plain, topic, retention_ms=1_000_000)
    topics.configure(plain.source, topic, retention_ms=2_000_000, cleanup_policy="compact,delete")
    await_own(plain, topic, retention_ms=2_000_000, cleanup_policy="compact,delete")
    unset(plain.source, topic, "retention.ms")
    await_own(plain, topic, retention_ms=None, cleanup_policy="compact,delete")
    # A key that only the remote topic has is an operator's own. As with MirrorMaker it goes, unless it is in the list.
    since = len(service.events)
    topics.alter(plain.target, plain.remote(topic), segment_ms=7_000_000)
    await_own(plain, topic, segment_ms=None)
    said = "segment.ms removed (was 7000000)"  # the change before it may be told only now
    service.wait_for(said, lambda: any(said in each["changes"] for each in service.find(ALTERED, since, topic=topic)))
    labels = {"source": plain.alias}
    service.wait_for("in step", lambda: service.metric("mirror_topic_configs", outcome="in_step", **labels) >= 2)
    assert service.metric("mirror_topic_config_changes_total", **labels) >= 5
    assert service.metric("mirror_topic_configs", outcome="different", **labels) == 0
    flow = next(each for each in json.loads(service.get("/status")[1])["flows"] if each["source"] == plain.alias)
    assert flow["configs"]["topics"] == []
    assert any("was altered" in event["reason"] for event in flow["events"])


def test_what_belongs_to_a_cluster_or_to_mirror_is_never_touched(flows: tuple[Pair, Pair, Service]) -> None:
    for pair in flows[:2]:
        topic = pair.topic("clusters-own", retention_ms=1_000_000, local_retention_ms=5)
        pair.produce(topic, Made(None, b"x"))
        pair.await_same(topic)
        before = {key: value for key, value in own(pair.target, pair.remote(topic)).items() if key != "retention.ms"}
        assert before.items() >= (ANY_TIME | KEEP).items() and not any(key.startswith("local.") for key in before)
        topics.configure(pair.source, topic, **CLUSTERS_OWN, max_message_bytes=500_000)
        topics.configure(
            pair.source, topic, retention_ms=2_000_000
        )  # later, so a round that has it has seen the others
        await_own(pair, topic, retention_ms=2_000_000)
        after = own(pair.target, pair.remote(topic))
        assert {key: after.get(key) for key in before} == before
        assert not after.keys() & ({key.replace("_", ".") for key in CLUSTERS_OWN} - before.keys())


def test_what_the_target_would_answer_to_keys_that_are_never_copied(
    _local_brokers: Addresses, prefix: str, tmp_path: Path
) -> None:
    """It takes some, and would then be altered. For each of the others it would refuse all changes of the topic."""
    pair = Pair(*_local_brokers, f"n{prefix[-7:-1]}", prefix)
    (flow,) = load(pair.service(tmp_path).file, {}).flows
    rules, target = Rules.of(flow), TopicConfigAdmin(flow.target)
    keys = {key for key, _ in ANSWERS}
    assert keys >= EXCLUDED_CONFIGS and all(any(key.startswith(each) for key in keys) for each in EXCLUDED_PREFIXES)
    topic = topics.create(pair.target, f"{prefix}answers")
    said = {}
    for number, (key, value) in enumerate(ANSWERS):
        assert not rules.copies(key)
        refused = target.alter({topic: {"retention.ms": str(number), key: value}})
        said[key, value] = refused[topic].str() if refused else ""
        assert own(pair.target, topic).get("retention.ms") != str(number) or not refused, "it makes all changes or none"
    assert {each: bool(answer) for each, answer in said.items()} == {each: bool(a) for each, a in ANSWERS.items()}, said
    assert all(ANSWERS[each] in answer for each, answer in said.items()), said


def test_the_largest_batch_is_only_raised(flows: tuple[Pair, Pair, Service]) -> None:
    plain, _, _ = flows
    topic = plain.topic("large")
    plain.produce(topic, Made(None, b"x"))
    plain.await_same(topic)
    topics.configure(plain.source, topic, max_message_bytes=3_000_000)
    await_own(plain, topic, max_message_bytes=3_000_000)
    topics.configure(plain.source, topic, max_message_bytes=2_000_000)
    topics.configure(plain.source, topic, retention_ms=2_000_000)
    await_own(plain, topic, retention_ms=2_000_000, max_message_bytes=3_000_000)


def test_defaults_of_the_source_and_a_list_of_keys(flows: tuple[Pair, Pair, Service]) -> None:
    _, other, _ = flows
    topic = other.topic("defaults", segment_ms=5_000_000, retention_ms=1_000_000)
    other.produce(topic, Made(None, b"x"))
    other.await_same(topic)
    assert "segment.ms" not in own(other.target, other.remote(topic)), "of the list, so not when it is created either"
    topics.alter(other.target, other.remote(topic), segment_bytes=50_000_000, min_compaction_lag_ms=7)
    unset(other.source, topic, "retention.ms")
    # The source's default stands on the remote topic itself.
    await_own(other, topic, retention_ms=7 * 24 * 3_600_000, min_compaction_lag_ms=0, segment_bytes=50_000_000)
    assert "segment.ms" not in own(other.target, other.remote(topic))


def test_a_source_topic_that_is_made_again_is_another_one(flows: tuple[Pair, Pair, Service]) -> None:
    plain, _, service = flows
    topic = plain.topic("recreated", retention_ms=900_000_000)
    plain.produce(topic, Made(None, b"old"))
    plain.await_same(topic)
    await_own(plain, topic, retention_ms=900_000_000)
    topics.recreate(plain.source, topic)
    plain.produce(topic, Made(None, b"new"))
    service.wait_for_event(BLOCKED, topic=topic)
    # Whatever is made now is compared at once, and at each round.
    rounds = service.metric("mirror_topic_config_round_timestamp_seconds", source=plain.alias)
    service.wait_for(
        "two rounds",
        lambda: service.metric("mirror_topic_config_round_timestamp_seconds", source=plain.alias) > rounds + 1,
    )
    assert own(plain.target, plain.remote(topic))["retention.ms"] == "900000000", "the old records are kept"
    decide(service, "--flow", plain.flow, "--topic", topic, "--skip-lost")
    await_own(plain, topic, retention_ms=None)


def test_with_names_that_stay_and_without_following(_local_brokers: Addresses, prefix: str, tmp_path: Path) -> None:
    """Identity, in one flow; and `sync_topic_configs: false`, in another. Neither needs a run."""
    same = Pair(*_local_brokers, f"i{prefix[-7:-1]}", prefix)
    topic = same.topic("same", retention_ms=1_000)
    topics.create(same.target, topic, retention_ms=2_000)
    for follows, lines in ((True, 1), (False, 0)):
        file = same.service(tmp_path, {"replication_policy": "identity", "sync_topic_configs": follows}).file
        (flow,) = load(file, {}).flows
        assert shown(dry_run(flow)).count(f"alter {topic}: retention.ms=1000 (was 2000)") == lines
        status = config_status.shown(config_status.read_configs(flow))
        assert "0 topics in step, 1 not" in status
        assert ("sync_topic_configs is false" in status) is not follows


@pytest.mark.parametrize("tells", [True, False], ids=["described", "hidden"])
def test_a_topic_is_created_without_keys_that_the_target_does_not_know(
    _local_brokers: Addresses,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tells: bool,
) -> None:
    """No broker here takes such a key, so the source's answer gets it on its way. The target's refusal is real."""
    pair = Pair(*_local_brokers, f"u{prefix[-7:-1]}", prefix)
    topic = pair.topic("unknown", partitions=2, retention_ms=1_000_000, cleanup_policy="compact")
    (flow,) = load(pair.service(tmp_path).file, {}).flows
    describe, newer = TopicConfigAdmin.configs, {key: ConfigValue(value, own=True) for key, value in UNKNOWN.items()}

    def described(admin: TopicConfigAdmin, names: list[str]) -> tuple[dict[str, Config], Refusals]:
        return {name: {**config, **newer} for name, config in describe(admin, names)[0].items()}, {}

    monkeypatch.setattr(TopicConfigAdmin, "configs", described)
    if not tells:  # as without DescribeConfigs on the target
        monkeypatch.setattr(ClusterAdmin, "topic_configs", lambda *_, **__: ({}, {}))
    monitor = TopicMonitor(flow)
    monitor.ensure_internal_topics()
    until("it is found", lambda: topic in monitor.mirrored())
    assert not monitor.refused
    assert topics.partitions(pair.target, pair.remote(topic)) == 2
    found = own(pair.target, pair.remote(topic))
    assert found == {"retention.ms": "1000000", "cleanup.policy": "compact", **ANY_TIME, **KEEP}
    (said,) = [each for each in caplog.records if each.getMessage() == LEFT_OUT]
    assert (said.topics, said.keys) == (pair.remote(topic), "a.newer.key, redpanda.remote.read")  # type: ignore[attr-defined]


def test_the_service_ends_well(flows: tuple[Pair, Pair, Service]) -> None:
    service = flows[2]
    assert service.terminate() == 0, service.tail()
    assert not service.noise
