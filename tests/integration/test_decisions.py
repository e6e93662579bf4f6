"""A position, or a remote topic, that is not what it was stops its partition until somebody decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException, TopicPartition

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Partition, Topic
from mirror.target.position_renewal import renew
from mirror.timing import RECENT_REPORTS
from tests.chaos.commits import Commits
from tests.harness import configuration, oracle, topics
from tests.harness.command import answer, decide, mirror
from tests.harness.load import Made, producer
from tests.harness.load import produce as write
from tests.harness.oracle import committed_position
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, DECIDED, PLANNED, Service
from tests.harness.together import in_turn, together
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

LOST = "mirror_lost_offsets_total"


class Flows:
    """One service with a flow for each policy; producers of idle partitions are closed at once."""

    def __init__(self, source: str, target: str, data_path: str, directory: Path) -> None:
        self.fail, self.skip = (
            Pair(source, target, f"decide{name}", f"decide{name}-").by(data_path) for name in ("fail", "skip")
        )
        quick = {"producer_idle_timeout": "1s"}
        settings = configuration.together(
            self.fail.settings({**quick, "on_data_loss": "fail"}), self.skip.settings({**quick, "on_data_loss": "skip"})
        )
        self.service = Service(settings, directory)

    def blocked(self, topic: str, words: str, count: int = 1) -> None:
        """Wait until the log has told so often that a partition of the topic stops for this reason."""

        def told() -> bool:
            return sum(words in each["reason"] for each in self.service.find(BLOCKED, topic=topic)) >= count

        self.service.wait_for(f"{topic}: {words}", told)

    def resume(self, topic: str, *how: str | int) -> None:
        """Decide, once the task has reported that it waits."""
        decide(self.service, "--flow", self.fail.flow, "--topic", topic, *how)


@pytest.fixture(scope="module")
def flows(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Flows]:
    running = Flows(source_cluster.bootstrap, target_cluster.bootstrap, data_path, tmp_path_factory.mktemp("decisions"))
    with running.service as service:
        for pair in (running.fail, running.skip):
            pair.topic("first")
        service.wait_for("plans", lambda: all(service.find(PLANNED, flow=p.flow) for p in (running.fail, running.skip)))
        yield running
        running.fail.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def produce(pair: Pair, topic: str, numbers: range) -> None:
    pair.produce(topic, *(Made(None, b"%d" % number) for number in numbers))


def values(pair: Pair, topic: str) -> list[int]:
    copied = pair.copied(topic)
    return [int(record.value or b"") for record in copied[0]] if copied else []


def copied(flows: Flows, pair: Pair, name: str) -> str:
    """A topic of which records 0 to 99 are copied, and whose producer is closed."""
    topic = pair.topic(name)
    produce(pair, topic, range(100))
    pair.await_same(topic)
    flows.service.await_idle(topic, 100)
    return topic


def delete_remote(flows: Flows, pair: Pair, topic: str) -> None:
    """Delete the remote topic, and wait until mirror has noticed."""
    topics.delete(pair.target, pair.remote(topic))
    flows.service.wait_for_event("the remote topic was deleted, nothing is copied until somebody decides", topic=topic)
    flows.blocked(topic, "is not the topic that had the copy: it was deleted")


def test_decisions(
    flows: Flows, source_cluster: LocalCluster, forgetful: LocalCluster, pair: Pair, prefix: str, tmp_path: Path
) -> None:
    """These scenarios run together: none of them touches the positions or the tasks of the others."""
    scenarios = (
        a_deleted_remote_topic_is_not_made_again,
        a_deleted_remote_topic_is_gone_on_with_where_somebody_says,
        another_remote_topic_of_the_name_stops_what_is_being_copied,
        by_policy_a_deleted_remote_topic_is_made_again,
        a_position_that_somebody_else_committed_is_not_believed,
        a_position_that_went_back_is_not_believed,
        a_position_from_before_is_upgraded_once,
    )
    together(
        in_turn(
            partial(positions_of_idle_and_of_excluded_topics_are_kept, source_cluster, forgetful, prefix, tmp_path),
            partial(a_remote_topic_that_was_deleted_while_no_service_ran, pair.other("away"), tmp_path),
        ),
        *(partial(each, flows) for each in scenarios),
    )


def a_deleted_remote_topic_is_not_made_again(flows: Flows) -> None:
    pair = flows.fail
    topic = copied(flows, pair, "deleted")
    delete_remote(flows, pair, topic)
    produce(pair, topic, range(100, 120))
    flows.service.wait_for("told that it is not ready", lambda: flows.service.get("/readyz")[0] == 503)
    (shown,) = answer("plan", "-c", flows.service.file, "--flow", pair.flow)["flows"]
    assert pair.remote(topic) not in shown["create"]
    assert [p["blocked"][:10] != "" for p in shown["partitions"] if p["topic"] == topic] == [True]
    assert not topics.partitions(pair.target, pair.remote(topic)), "it was made again"
    flows.resume(topic, "--from-start")
    pair.await_same(topic)
    pair.assert_settled(topic)


def a_deleted_remote_topic_is_gone_on_with_where_somebody_says(flows: Flows) -> None:
    pair = flows.fail
    names = {"--continue": "continued", "--at": "at"}
    both = {how: copied(flows, pair, name) for how, name in names.items()}
    for topic in both.values():
        delete_remote(flows, pair, topic)
        produce(pair, topic, range(100, 120))
    flows.resume(both["--continue"], "--continue")
    beyond = mirror(
        "resume", "-c", flows.service.file, "--flow", pair.flow, "--topic", both["--at"], "--partition", 0, "--at", 121
    )
    assert beyond.returncode == 2 and "has offsets 0 to 120" in beyond.stderr, beyond
    flows.resume(both["--at"], "--partition", 0, "--at", 42)
    flows.service.wait_for("from 100", lambda: values(pair, both["--continue"]) == [*range(100, 120)])
    flows.service.wait_for("from 42", lambda: values(pair, both["--at"]) == [*range(42, 120)])
    for topic in both.values():
        produce(pair, topic, range(120, 140))
    flows.service.wait_for("and on", lambda: values(pair, both["--at"]) == [*range(42, 140)])
    flows.service.wait_for("and on", lambda: values(pair, both["--continue"]) == [*range(100, 140)])


def another_remote_topic_of_the_name_stops_what_is_being_copied(flows: Flows) -> None:
    """The topic is under load. What comes before anybody notices is in the new topic, and that is reported."""
    pair = flows.fail
    topic = copied(flows, pair, "swapped")
    produce(pair, topic, range(100, 110))
    flows.service.wait_for("copied", lambda: len(values(pair, topic)) == 110)
    topics.recreate(pair.target, pair.remote(topic))
    flows.blocked(topic, "is not the topic that had the copy: it was deleted")
    produce(pair, topic, range(110, 120))
    flows.resume(topic, "--at", 105, "--partition", 0)
    flows.service.wait_for("from 105", lambda: values(pair, topic)[-15:] == [*range(105, 120)])


def by_policy_a_deleted_remote_topic_is_made_again(flows: Flows) -> None:
    pair = flows.skip
    topic = copied(flows, pair, "skipped")
    topics.delete(pair.target, pair.remote(topic))
    again = "the remote topic was deleted and created again"
    flows.service.wait_for_event(again, topic=topic)
    produce(pair, topic, range(100, 120))
    flows.service.wait_for("from 100", lambda: values(pair, topic) == [*range(100, 120)])
    flows.service.wait_for_event(DECIDED, topic=topic, choice="continue", offset=100)
    flows.service.wait_for("counted", lambda: flows.service.metric(LOST, topic=topic, reason="remote_topic") == 1)


def test_a_position_that_vanished_is_not_begun_anew(flows: Flows) -> None:
    pair = flows.fail
    topic = copied(flows, pair, "vanished")
    topics.delete_group(pair.target, pair.group)
    produce(pair, topic, range(100, 105))
    flows.blocked(topic, f"the position in group {pair.group} is gone, it was 100")
    assert values(pair, topic) == [*range(100)]
    flows.resume(topic, "--continue")
    pair.await_same(topic)
    pair.assert_settled(topic)
    # The decision was for this one.
    flows.service.await_idle(topic, 105)
    topics.delete_group(pair.target, pair.group)
    produce(pair, topic, range(105, 110))
    flows.blocked(topic, f"the position in group {pair.group} is gone, it was 105")
    flows.resume(topic, "--continue")
    pair.await_same(topic)


def a_position_that_somebody_else_committed_is_not_believed(flows: Flows) -> None:
    pair = flows.fail
    topic = copied(flows, pair, "foreign")
    topics.commit(pair.target, pair.group, pair.remote(topic), {0: 5})
    produce(pair, topic, range(100, 105))
    flows.blocked(topic, f"position 5 in group {pair.group} was not committed by mirror")
    flows.resume(topic, "--continue")
    pair.await_same(topic)


def a_position_that_went_back_is_not_believed(flows: Flows) -> None:
    """It is not even if it has mirror's own metadata, which a tool that restores positions may keep."""
    pair = flows.fail
    topic = copied(flows, pair, "back")
    consumer = Consumer({"bootstrap.servers": pair.target, "group.id": pair.group, "log_level": 0})
    (ours,) = consumer.committed([TopicPartition(pair.remote(topic), 0)], 30)
    consumer.commit(offsets=[TopicPartition(pair.remote(topic), 0, 5, ours.metadata)], asynchronous=False)
    consumer.close()
    produce(pair, topic, range(100, 105))
    flows.blocked(topic, f"the position in group {pair.group} went back from 100 to 5")
    flows.resume(topic, "--continue")
    pair.await_same(topic)


def test_a_new_task_knows_a_position_from_its_last_report(flows: Flows) -> None:
    """Nothing is left of the task that has committed it, and what stands in the group looks like mirror's own."""
    pair = flows.fail
    topic = copied(flows, pair, "forgotten")
    consumer = Consumer({"bootstrap.servers": pair.target, "group.id": pair.group, "log_level": 0})
    (ours,) = consumer.committed([TopicPartition(pair.remote(topic), 0)], 30)
    consumer.commit(offsets=[TopicPartition(pair.remote(topic), 0, 5, ours.metadata)], asynchronous=False)
    consumer.close()
    flows.service.kill_workers()
    produce(pair, topic, range(100, 105))
    flows.blocked(topic, f"the position in group {pair.group} went back from 100 to 5")
    flows.resume(topic, "--continue")
    pair.await_same(topic)
    pair.assert_settled(topic)


def test_a_position_that_vanished_is_replaced_by_what_somebody_says(flows: Flows) -> None:
    """What is copied then comes again, and nothing is missing."""
    pair = flows.fail
    says: dict[int, tuple[str | int, ...]] = {0: ("--from-start",), 42: ("--partition", 0, "--at", 42)}
    names = {first: copied(flows, pair, f"vanished-{first}") for first in says}
    topics.delete_group(pair.target, pair.group)
    for topic in names.values():
        produce(pair, topic, range(100, 105))
    for first, topic in names.items():
        flows.blocked(topic, f"the position in group {pair.group} is gone, it was 100")
        flows.resume(topic, *says[first])
    for first, topic in names.items():
        wanted = [*range(100), *range(first, 105)]
        flows.service.wait_for("again", lambda at=topic, all_=wanted: values(pair, at) == all_)  # type: ignore[misc]


def a_position_from_before_is_upgraded_once(flows: Flows) -> None:
    pair = flows.fail
    topic = copied(flows, pair, "adopted")
    source_id = topics.topic_id(pair.source, topic)
    consumer = Consumer({"bootstrap.servers": pair.target, "group.id": pair.group, "log_level": 0})
    before = TopicPartition(pair.remote(topic), 0, 100, f'{{"topic_id":"{source_id}"}}')
    consumer.commit(offsets=[before], asynchronous=False)
    produce(pair, topic, range(100, 105))
    pair.await_same(topic)
    (now,) = consumer.committed([TopicPartition(pair.remote(topic), 0)], 30)
    consumer.close()
    assert topics.topic_id(pair.target, pair.remote(topic)) in now.metadata
    upgraded = "position upgraded: it says now which remote topic it belongs to"
    flows.service.wait_for_event(upgraded, topic=topic)
    assert len(flows.service.find(upgraded, topic=topic)) == 1


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A target that forgets positions three minutes after they were committed: a service may take one to start."""
    settings = {"offsets.retention.minutes": 3, "offsets.retention.check.interval.ms": 1000}
    with LocalCluster("forgetful", tmp_path_factory.mktemp("forgetful"), properties=settings) as cluster:
        yield cluster


def positions_of_idle_and_of_excluded_topics_are_kept(
    source_cluster: LocalCluster, forgetful: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    pair = Pair(source_cluster.bootstrap, forgetful.bootstrap, f"k{prefix[-7:-1]}", prefix)
    idle, excluded = pair.topic("idle"), pair.topic("excluded")
    for topic in (idle, excluded):
        produce(pair, topic, range(10))
    group, remote = f"{prefix}reader", pair.remote(idle)  # it has stopped, and nobody commits its offset any more
    topics.commit(pair.source, group, idle, {0: 7})
    groups = {"sync": True, "interval": "1s", "include": [group]}
    quick = {"producer_idle_timeout": "1s", "groups": groups}
    with pair.service(tmp_path, quick) as service:
        for topic in (idle, excluded):
            pair.await_same(topic)
            pair.assert_settled(topic)
        until("the group is synced", lambda: committed_position(pair.target, group, remote, 0) == 7)
        assert service.terminate() == 0, service.tail()
    commits = {topic: Commits(pair, pair.remote(topic)) for topic in (idle, excluded)}
    with pair.service(tmp_path, {**quick, "exclude": [excluded]}) as service:
        for topic in (idle, excluded):
            # A tenth of the time after which the target forgets: two commits come well before it does.
            until(f"{topic} is committed again", lambda at=topic: len(list(commits[at].read())) >= 2)  # type: ignore[misc]
            assert committed_position(pair.target, pair.group, pair.remote(topic), 0) == 10
        until("the group's offset is committed again", lambda: commits[idle].times(group) >= 2)
        assert committed_position(pair.target, group, remote, 0) == 7
        assert service.terminate() == 0, service.tail()
    with pair.service(tmp_path, quick):
        produce(pair, excluded, range(10, 15))
        pair.await_same(excluded)
    assert len(oracle.read(pair.target, pair.remote(excluded))[0]) == 15


def test_a_renewal_fences_who_copies_the_partition_meanwhile(pair: Pair, tmp_path: Path) -> None:
    """A fenced copier can't put an older position over the one that is being committed."""
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    flow = load(file, {}).flows[0]
    name = pair.topic("retired")
    remote = topics.create(pair.target, pair.remote(name))
    topics.create(pair.target, flow.control_topic)
    topics.commit(pair.target, pair.group, remote, {0: 5}, topics.ours(pair.source, name))
    to = producer(pair.target, transactional_id=transactional_id(flow, remote, 0), message_timeout_ms=30_000)
    to.init_transactions(PATIENCE)
    to.begin_transaction()
    to.produce(remote, b"copied", partition=0)
    assert to.flush(PATIENCE) == 0
    retired = Topic(remote, topics.topic_id(pair.source, name), 1, 1, topics.topic_id(pair.target, remote))
    assert list(renew(flow, {name: retired})) == [Partition(name, 0)]
    with pytest.raises(KafkaException, match="fenced"):
        to.commit_transaction(PATIENCE)
    assert oracle.count(oracle.read(pair.target, remote)) == 0
    assert committed_position(pair.target, pair.group, remote, 0) == 5


def a_remote_topic_that_was_deleted_while_no_service_ran(pair: Pair, tmp_path: Path) -> None:
    """The last plan still knows it by its id."""
    topic = pair.topic("away")
    produce(pair, topic, range(10))
    with pair.service(tmp_path) as service:
        pair.await_same(topic)
        service.wait_for("reported", lambda: service.positions(topic).get(0) == 10)
        assert service.terminate() == 0, service.tail()
    topics.delete(pair.target, pair.remote(topic))
    with pair.service(tmp_path) as service:
        said = service.wait_for_event(BLOCKED, topic=topic)
        assert "is not the topic that had the copy: it was deleted" in said["reason"]
        assert not topics.partitions(pair.target, pair.remote(topic)), "it was made again"
        assert service.terminate() == 0, service.tail()


def test_the_last_report_of_a_topic_that_was_left_out_counts(pair: Pair, tmp_path: Path) -> None:
    """The position vanishes meanwhile, and tasks have reported others since. Nothing else says what was copied."""
    here, away = pair.topic("here"), pair.topic("away")
    append = {"append_to_existing": True}
    for topic in (here, away):
        produce(pair, topic, range(10))
    for left_out in ([], [away]):
        with pair.service(tmp_path, {**append, "exclude": left_out}) as service:
            for topic in {here, away}.difference(left_out):
                pair.await_same(topic)
                service.wait_for("reported", lambda at=topic: service.positions(at).get(0) == 10)  # type: ignore[misc]
            assert service.terminate() == 0, service.tail()
    status = f"mirror-status.{pair.alias}.internal"
    report = [r.value for r in oracle.read(pair.target, status)[0] if r.key == f"{here}/0".encode()][-1]
    write(pair.target, status, [Made(f"{here}/0".encode(), report)] * (20 * RECENT_REPORTS))
    topics.delete_group(pair.target, pair.group)
    with pair.service(tmp_path, append) as service:
        said = service.wait_for_event(BLOCKED, topic=away)
        assert f"the position in group {pair.group} is gone, it was 10" in said["reason"]
        produce(pair, away, range(10, 15))
        decide(service, "--topic", away, "--continue")
        pair.await_same(away)
        assert values(pair, away) == [*range(15)]
        assert service.terminate() == 0, service.tail()
