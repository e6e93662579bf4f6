"""A service follows its configuration file while it copies: what may change does, and what may not is named."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from confluent_kafka import IsolationLevel

from mirror.demo.brokers import LocalCluster
from tests.harness import oracle, topics
from tests.harness.configuration import AUTO, Settings
from tests.harness.follower import Follower
from tests.harness.load import Load, Made, sized
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, PLANNED, Event, Service
from tests.harness.service import REFUSED as PUT_ASIDE
from tests.harness.waiting import until

RELOADED = "configuration reloaded"
REFUSED = "configuration not reloaded, the old settings stay in force"
WAITING = "these keys changed, and take effect at the next start"
SUCCESSFUL = "mirror_config_last_reload_successful"
SUCCEEDED_AT = "mirror_config_last_reload_success_timestamp_seconds"
FOLLOWED = "task follows settings of the plan"
GROUP_ROUND = "mirror_group_round_timestamp_seconds"
THROTTLED = "mirror_throttled_partitions"
WAITED = "mirror_throttle_wait_seconds_total"
THROTTLE = 200_000  # bytes per second
SPARE = 2.5  # seconds' worth that may come at once: what was saved up, and the first and the last transaction
BATCH = 10  # records of 1 kB: one path divides them, the other one merges them, to what comes in a moment
RATE = 250  # records per second
TURNS = 2  # of a topic that comes and goes


@pytest.fixture(scope="module")
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster, data_path: str) -> Pair:
    unique = uuid.uuid4().hex[:6]
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, f"r{unique}", f"reload-{unique}-").by(data_path)
    for name in ("first", "second"):
        pair.topic(name, 2)
    return pair


@pytest.fixture(scope="module")
def own(flow: Pair) -> Pair:
    """The same clusters and topics, by the own names of remote topics."""
    return replace(flow, template="own-{topic}")


@pytest.fixture(scope="module")
def settings(flow: Pair) -> Settings:
    """Nothing happens by itself soon: neither a look for topics nor a second group round."""
    never = {"refresh_topics_interval": "1h", "groups": {"interval": "1h"}, "sync_topic_configs": False}
    return flow.settings({"topics": [f"{flow.prefix}first", f"{flow.prefix}none"], **never})


@pytest.fixture(scope="module")
def service(flow: Pair, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(settings, tmp_path_factory.mktemp("reload")) as running:
        yield running.await_plan()
        flow.assert_path(running)
        assert running.terminate() == 0, running.tail()
        assert not running.noise, running.tail()


def change(service: Service, settings: Settings, flow: dict[str, Any], **top: Any) -> Event:
    """Change keys of the flow and of the file, and wait until the service has read them."""
    since = len(service.events)
    settings["flows"][0] |= flow
    settings |= top
    service.rewrite(yaml.safe_dump(settings))
    answers = service.wait_for("an answer", lambda: service.find(RELOADED, since) or service.find(REFUSED, since))
    assert answers[0]["msg"] == RELOADED, answers[0]
    return answers[0]


def configuration(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(service.get("/status")[1])["configuration"]
    return found


def test_topics_come_and_go_under_load(flow: Pair, own: Pair, service: Service, settings: Settings) -> None:
    """The one that comes has a name of its own, with which it comes back, too. The other one does not pause."""
    first, second = flow.prefix + "first", flow.prefix + "second"
    flow.produce(second, *(Made(None, b"before %d" % number) for number in range(100)))
    entry = {"remote_topic": own.remote(second), "on_poison_record": "fail"}
    (said,) = service.find("entries match no topic")
    assert f'"{flow.prefix}none" in topics matches no topic of the source' in said["reason"]
    still: list[float] = []
    comes: list[float] = []
    goes: list[float] = []
    with (
        Load(flow.source, {first: 2}, rate=RATE, transaction=20, abort_every=5) as load,
        Follower(flow.target, flow.remote(first), 0) as follower,
    ):
        until("the load is copied", lambda: flow.copied(first).get(1) and follower.arrivals)
        workers = service.worker_pids()
        for turn in range(TURNS):
            begun = time.monotonic()
            anew: dict[str, Any] = {"exclude": []} if turn else {"topics": [f"{flow.prefix}.*"]}
            with measured(follower, comes):
                said = change(service, settings, {**anew, "topic_settings": {second: entry}})
                own.await_same(second)
            service.wait_for("its tasks report it", lambda: "released" not in states(flow, second))
            if turn == 0:
                keys = ["topics", *(f"topic_settings.{second}.{key}" for key in entry)]
                assert said["changed"] == "; ".join(f"{flow.flow}: {key}" for key in keys)
            before = oracle.count(own.copied(second))
            with measured(follower, goes):
                change(service, settings, {"exclude": [second], "topic_settings": {}})
                service.wait_for("a plan without it", lambda: second not in flow.newest_plan()["topics"])
                service.wait_for("its tasks have let it go", lambda: states(flow, second) == {"released"})
            took = time.monotonic() - begun
            with measured(follower, still):
                as_much_work(flow, own, second, turn, took / 2)
            flow.produce(second, *(Made(None, b"meanwhile %d" % number) for number in range(100)))
            load.wait_for(load.counts.total + RATE)
            assert oracle.count(own.copied(second)) == before, "it is excluded"
        assert service.find("topic is not mirrored any more", topic=second), "a repetition within a minute is left out"
        change(service, settings, {"exclude": [], "topic_settings": {second: entry}})
        own.await_same(second)
        assert service.worker_pids() == workers, "no task has begun anew"
    flow.await_same(first)
    flow.assert_settled(first)
    own.assert_settled(second)
    assert topics.partitions(flow.target, flow.remote(second)) == 0
    assert len({each["slices"] for each in service.find(PLANNED)}) == 1
    print(f"largest gaps, seconds: still {still}, a topic comes {comes}, goes {goes}")
    # A machine that is busy with something else is slow now and then; a pause of the change's own would come each time.
    assert max(min(comes), min(goes)) < 3 * max(still)


def as_much_work(flow: Pair, own: Pair, topic: str, turn: int, seconds: float) -> None:
    """What a change costs the machine while the service does nothing: a new topic, and this test's own reading."""
    end = time.monotonic() + seconds
    topics.create(flow.target, f"{own.remote(topic)}-{turn}", 2)

    def read() -> bool:
        own.await_same(topic)
        states(flow, topic)
        flow.newest_plan()
        return time.monotonic() >= end

    until("as long as a change took", read)


@contextlib.contextmanager
def measured(follower: Follower, gaps: list[float]) -> Iterator[None]:
    """Add the longest time without a record meanwhile."""
    began = time.monotonic()
    yield
    gaps.append(follower.largest_gap(began))


def states(flow: Pair, topic: str) -> set[str]:
    """The states of a topic's partitions as the tasks have reported them last."""
    reports = {r.key: r.value for r in oracle.read(flow.target, f"mirror-status.{flow.alias}.internal")[0]}
    return {
        json.loads(value or b"{}")["state"] for key, value in reports.items() if (key or b"").startswith(topic.encode())
    }


def test_an_invalid_file_changes_nothing(flow: Pair, service: Service, settings: Settings) -> None:
    first, before = flow.prefix + "first", service.metric(SUCCEEDED_AT)
    assert service.metric(SUCCESSFUL) == 1
    since = len(service.events)
    service.rewrite(yaml.safe_dump(settings | {"drain_timeout": "for ever"}))
    said = service.wait_for_event(REFUSED, since=since)
    assert said["level"] == "ERROR" and f"{service.file}:" in said["reason"] and "drain_timeout: must" in said["reason"]
    service.wait_for("the metric", lambda: service.metric(SUCCESSFUL) == 0)
    assert service.metric(SUCCEEDED_AT) == before
    assert configuration(service)["problem"] == said["reason"] and "old settings stay" in service.get("/")[1]
    flow.produce(first, Made(None, b"on"))
    flow.await_same(first)
    change(service, settings, {})
    service.wait_for("the metric", lambda: service.metric(SUCCESSFUL) == 1)
    assert service.metric(SUCCEEDED_AT) > before and not configuration(service)["problem"]


def test_what_can_not_change_is_named_and_stays(flow: Pair, service: Service, settings: Settings) -> None:
    """A topic waits with the transform that may be meant for it, and holds up nothing else."""
    since, first, masked = len(service.events), flow.prefix + "first", f"masked-{flow.prefix}"
    topics.create(flow.source, masked)
    flow.produce(masked, Made(None, b"not as it is"))
    selected = settings["flows"][0]["topics"]
    new = {"compression": "gzip", "transform": "shop.masked", "topics": [*selected, masked], "exclude_configs": ["x"]}
    said = change(service, settings, new, http={"host": "127.0.0.1", "port": 1})
    assert said["changed"] == f"{flow.flow}: exclude_configs"
    *others, held = waiting = service.wait_for_event(WAITING, since=since)["keys"].split("; ")
    assert others == ["http.port", f"{flow.flow}: compression", f"{flow.flow}: transform"]
    assert held.startswith(f"{flow.flow}: topics (waits with transform,")
    service.wait_for("it is shown", lambda: configuration(service)["waiting"] == waiting)
    assert "take effect at the next start" in service.get("/")[1]
    assert service.metric("mirror_config_restart_needed") == 1 and service.metric(SUCCESSFUL) == 1
    assert topics.partitions(flow.target, flow.remote(masked)) == 0 and masked not in flow.newest_plan()["topics"]
    change(service, settings, {"transform": None, "topics": selected})
    # A test before this one has brought partitions, which get a task within seconds.
    service.wait_for("it is ready", lambda: service.get("/readyz")[0] == 200)
    flow.produce(first, Made(None, b"on"))
    flow.await_same(first)


def test_a_signal_has_the_file_read_again(service: Service) -> None:
    since = len(service.events)
    os.kill(service.pid, signal.SIGHUP)
    assert service.wait_for_event(RELOADED, since=since)["changed"] == "nothing"


def test_running_tasks_take_another_policy(flow: Pair, own: Pair, service: Service, settings: Settings) -> None:
    """A partition waits for a person by its topic's policy. Without that one it goes on by the flow's new policy.

    Its task and its remote topic stay.
    """
    topic = flow.prefix + "second"
    workers, letters = service.worker_pids(), f"mirror-dead-letters.{flow.alias}.internal"
    bad = Made(b"bad", b"x" * 60_000)
    topics.configure(flow.target, own.remote(topic), max_message_bytes=50_000)
    before = oracle.count(own.copied(topic))
    flow.produce(topic, Made(None, b"before"), bad, Made(None, b"after"))
    service.wait_for_event(BLOCKED, topic=topic)
    assert topics.partitions(flow.target, letters) == 0
    since = len(service.events)
    said = change(service, settings, {"on_poison_record": "dead_letter", "topic_settings": {}})
    policies = ["on_poison_record", f"topic_settings.{topic}.on_poison_record"]
    assert said["changed"] == "; ".join(f"{flow.flow}: {key}" for key in policies)
    waiting = service.wait_for_event(WAITING, since=since)["keys"].split("; ")
    assert f"{flow.flow}: topic_settings.{topic}.remote_topic" in waiting
    service.wait_for_event(PUT_ASIDE, topic=topic)
    service.wait_for("what is good", lambda: oracle.count(own.copied(topic)) == before + 2)
    (found,) = oracle.read(flow.target, letters).values()
    assert [(each.key, each.value) for each in found] == [(bad.key, bad.value)]
    assert service.worker_pids() == workers
    assert topics.partitions(flow.target, flow.remote(topic)) == 0


@pytest.mark.both_paths
def test_a_throttle_slows_its_topic_alone_until_it_is_lifted(flow: Pair, service: Service, settings: Settings) -> None:
    first, topic = flow.prefix + "first", flow.topic("throttled", 2)
    for partition in range(2):
        flow.produce(topic, *map(sized(1_000), range(4_000)), partition=partition, batch_num_messages=BATCH)
    change(service, settings, {"topics": [f"{flow.prefix}.*"], "topic_settings": {topic: {"throttle": THROTTLE}}})
    service.wait_for("it is told", lambda: service.metric(THROTTLED, topic=topic, by="throttle") == 2)
    workers = service.worker_pids()
    assert service.metric("mirror_topic_throttle_bytes_per_second", topic=topic) == THROTTLE
    assert "slowed down by the topic's throttle of 200 kB/s" in service.get("/status")[1]
    began = time.monotonic()
    before = size(flow.copied(topic))
    flow.produce(first, *map(sized(1_000), range(2_000)))
    flow.await_same(first)
    assert service.metric(THROTTLED, topic=first, by="throttle") == 0, "it is not slowed"
    until("five seconds' worth", lambda: size(flow.copied(topic)) - before > 5 * THROTTLE)
    grown, seconds = size(flow.copied(topic)) - before, time.monotonic() - began
    assert grown < (seconds + SPARE) * THROTTLE
    assert service.metric(WAITED, topic=topic) > 1
    rest, waited = 8_000_000 - before - grown, service.metric(WAITED, topic=topic)
    change(service, settings, {"topic_settings": {}})
    flow.await_same(topic)
    service.wait_for("it is not told any more", lambda: service.metric(THROTTLED, by="throttle") == 0)
    # With the throttle, each of the two partitions would have waited about so long.
    assert service.metric(WAITED, topic=topic) - waited < rest / THROTTLE
    flow.assert_settled(topic)
    assert service.worker_pids() == workers


@pytest.mark.both_paths
def test_a_throttle_of_the_flow_holds_for_both_tasks_together(flow: Pair, service: Service, settings: Settings) -> None:
    """Each of the two has one of the partitions, and a backlog there that would take the whole throttle.

    On a busy machine both may be slower, never faster. Batches are small, so none is more than comes in a moment.
    """
    topic = flow.prefix + "first"
    assert all(len(each[topic]) == 1 for each in flow.newest_plan()["slices"])
    change(service, settings, {"throttle": THROTTLE})
    service.wait_for("it is told", lambda: both_are_throttled(flow, service, topic))
    workers = service.worker_pids()
    assert service.metric("mirror_flow_throttle_bytes_per_second") == THROTTLE
    assert "slowed down by the flow's throttle of 200 kB/s" in service.get("/status")[1]
    with contextlib.closing(oracle.Reader(flow.target, flow.remote(topic))) as reader:
        began = time.monotonic()
        before = {number: len(found) for number, found in reader.to_end().items()}
        had = size(reader.records)
        until("ten seconds' worth", lambda: size(reader.to_end()) - had > 10 * THROTTLE)
        grown, seconds = size(reader.records) - had, time.monotonic() - began
        assert grown < (seconds + SPARE) * THROTTLE
        assert all(len(found) > before[number] for number, found in reader.records.items()), "both go on"
    whole = service.metric("mirror_data_path_partitions", topic=topic, path="batches")
    assert whole == (2 if flow.data_path == AUTO else 0)
    change(service, settings, {"throttle": None})
    flow.await_same(topic)
    flow.assert_settled(topic)
    assert service.worker_pids() == workers


def both_are_throttled(flow: Pair, service: Service, topic: str) -> bool:
    """True if the throttle slows both partitions down, which have more to copy than it gives in ten seconds.

    A partition that has less gets as much again, but no more: else the backlog would grow with each look of a busy
    machine. The plan may have given one task nearly the whole throttle, and there is no other plan within the hour.
    """
    ends, positions = oracle.ends(flow.source, topic, IsolationLevel.READ_COMMITTED), service.positions(topic)
    for number, end in ends.items():
        if end - (positions.get(number) or 0) < 10 * THROTTLE / 1_000:
            more = map(sized(1_000), range(10 * THROTTLE // 1_000))
            flow.produce(topic, *more, partition=number, batch_num_messages=BATCH)
    return service.metric(THROTTLED, topic=topic, by="throttle") == 2


def size(records: oracle.Records) -> int:
    """Bytes of keys and values."""
    return sum(len(each.key or b"") + len(each.value or b"") for found in records.values() for each in found)


def test_groups_and_the_log_level_change(flow: Pair, service: Service, settings: Settings) -> None:
    group = f"{flow.prefix}group"
    topics.commit(flow.source, group, flow.prefix + "first", {0: 1})
    service.wait_for("the first round", lambda: service.metric(GROUP_ROUND) > 0)
    since = len(service.events)
    assert not any(event["level"] == "DEBUG" for event in service.events)
    entries = {
        "groups": {"interval": "1s", "include": [group, f"{group}s"]},
        "topics": [f"{flow.prefix}.*", f"{flow.prefix}nothing"],
    }
    change(service, settings, entries, log={"format": "json", "level": "debug"})
    service.wait_for("the group", lambda: service.metric("mirror_group_partitions", group=group, outcome="exact") == 1)
    assert service.metric("mirror_group_lag", group=group) > 0
    said = service.wait_for_event("entries match no group", since=since)["reason"]
    assert f'"{group}s" in groups.include matches no consumer group' in said
    assert (
        f'"{flow.prefix}nothing" in topics' in service.wait_for_event("entries match no topic", since=since)["reason"]
    )
    at = service.metric(GROUP_ROUND)
    service.wait_for("another round", lambda: service.metric(GROUP_ROUND) > at)
    assert service.wait_for_event(FOLLOWED, since=since)["level"] == "DEBUG", "the tasks' level has changed, too"
    change(service, settings, {"groups": {"checkpoints": False}}, log={"format": "json"})
    service.wait_for("no groups", lambda: json.loads(service.get("/status")[1])["flows"][0]["groups"] is None)


def test_a_canary_comes_and_goes(flow: Pair, service: Service, settings: Settings) -> None:
    """Its topic is found at once, though topics are looked for each hour, and is copied though `topics` lacks it."""
    topic, at, took = f"mirror-canary.{flow.alias}.internal", "mirror_canary_timestamp_seconds", "mirror_canary_seconds"
    assert math.isnan(service.metric(at)) and not topics.partitions(flow.source, topic)
    workers, before = service.worker_pids(), time.time()
    change(service, settings, {"canary": {"enabled": True, "interval": "1s"}})
    service.wait_for("a canary", lambda: service.metric(took) > 0)
    arrived = service.metric(at)
    assert before < arrived < time.time() and service.metric(took) < time.time() - before
    # Nobody believes what others write there.
    key = flow.flow.encode()
    strange = (
        Made(key, b"{" * 99),
        Made(key, b'{"run": "x", "number": 99}'),
        Made(key, None),
        Made(b"another flow", b"x"),
    )
    flow.produce(topic, *strange)
    service.wait_for_event("record that is no canary is ignored", topic=topic)
    service.wait_for("more of them", lambda: service.metric(at) > arrived + 1)
    assert "The last canary was written" in service.get("/")[1]
    service.wait_for("it is ready", lambda: service.get("/readyz")[0] == 200)
    assert topics.configuration(flow.target, topic)["cleanup.policy"] == "compact"
    change(service, settings, {"canary": {"enabled": False}})
    service.wait_for("no canary", lambda: math.isnan(service.metric(at)))
    service.wait_for_event("topic is not mirrored any more", topic=topic)
    written, copied = (
        [(each.key, each.value) for each in records[0]]
        for records in (oracle.read(flow.source, topic), replace(flow, template="{topic}").copied(topic))
    )
    assert copied == written[: len(copied)] and {(each.key, each.value) for each in strange} <= set(copied)
    entries = oracle.read(flow.target, f"mirror-offset-map.{flow.alias}.internal")[0]
    assert not [each for each in entries if topic.encode() in (each.key or b"")], "they would be kept for ever"
    assert service.worker_pids() == workers, "no task has begun anew"


def test_canaries_arrive_again_without_a_decision_after_their_topic_was_deleted(
    flow: Pair, service: Service, settings: Settings
) -> None:
    """On the source and then on the target. Only the losses of other topics wake somebody."""
    topic, at = f"mirror-canary.{flow.alias}.internal", "mirror_canary_timestamp_seconds"
    change(service, settings, {"canary": {"enabled": True, "interval": "1s"}, "refresh_topics_interval": "1s"})
    service.wait_for("canaries", lambda: service.metric("mirror_canary_seconds") > 0)
    for bootstrap, reason in ((flow.source, "recreated"), (flow.target, "remote_topic")):
        old, deleted = topics.topic_id(bootstrap, topic), time.time()
        topics.delete(bootstrap, topic)
        until("there is another one", lambda b=bootstrap, o=old: topics.topic_id(b, topic) != o)  # type: ignore[misc]
        service.wait_for("a canary arrives", lambda d=deleted: service.metric(at) > d + 1)  # type: ignore[misc]
        lost = {"topic": topic, "reason": reason}
        service.wait_for("it is counted", lambda m=lost: service.metric("mirror_lost_offsets_total", **m) >= 1)  # type: ignore[misc]
    # Kafka deletes a position with its topic: that may block the partition until the plan knows the new topic.
    blocked = {"topic": topic, "state": "blocked"}
    service.wait_for("no partition waits", lambda: service.metric("mirror_partitions", **blocked) == 0)
    service.wait_for("it is ready", lambda: service.get("/readyz")[0] == 200)
    change(service, settings, {"canary": {"enabled": False}, "refresh_topics_interval": "1h"})
    service.wait_for("no canary", lambda: math.isnan(service.metric(at)))
