"""Group sync: what the source's groups have committed stands on the target, exactly, and nothing goes back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import OFFSET_END, OFFSET_INVALID, Consumer, IsolationLevel, Producer, TopicPartition

from mirror.commands.group_status import read_groups
from mirror.commands.translate import of_group, translate
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.errors import ClusterAway, ConfigError
from mirror.groups import group_commits, group_sync
from mirror.groups.group_choice import HAS_MEMBERS, WOULD_GO_BACK, GroupOutcome
from mirror.groups.group_commits import GroupCommits, Taken
from mirror.groups.group_offsets import Committed, GroupOffsets, offsets_of
from mirror.groups.group_sync import WITHOUT_METADATA, GroupOffset, GroupSync
from mirror.groups.other_groups import REASONS
from mirror.groups.position_groups import OWN_GROUP, POSITIONS, POSITIONS_THERE, is_position
from mirror.groups.selected import NOT_MIRRORED
from mirror.groups.translation import Unknown
from mirror.model import Partition
from mirror.settings import Cluster, Flow
from mirror.wire.offsets import Where
from tests.harness import oracle, raw_commits, topics
from tests.harness.command import mirror
from tests.harness.console_consumer import consume, sharing
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.streams_group import streaming
from tests.harness.waiting import PATIENCE, until
from tests.unit.test_naming import own_name

pytestmark = [pytest.mark.slow, pytest.mark.long]
RENEW = 3600.0
ONLY_LIBRDKAFKA = {"broker.address.ttl": "1000"}  # a property that mirror's own client does not support


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Pair, Service]]:
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, "sync", "sync-").by(data_path)
    # The service syncs the groups of those tests that are about a fail-over; the others make the rounds themselves.
    groups = {"groups": {"sync": True, "include": ["over-.*"], "interval": "1s"}}
    with pair.service(tmp_path_factory.mktemp("sync"), groups) as service:
        yield pair, service
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise


@pytest.fixture
def flow(running: tuple[Pair, Service]) -> Flow:
    """The flow with those groups that the service leaves to the test."""
    (loaded,) = load(running[1].file).flows
    return replace(loaded, groups=replace(loaded.groups, include=("sync-.*",)))


@pytest.fixture
def sync(flow: Flow) -> Iterator[GroupSync]:
    with closing(GroupSync(flow)) as made:
        yield made


def fill(pair: Pair, topic: str) -> None:
    """Two hundred transactions of ten records, of which every fifth is aborted."""
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE)
    for number in range(200):
        producer.begin_transaction()
        for record in range(10):
            producer.produce(topic, b"%d" % (10 * number + record), partition=0)
        if number % 5:
            producer.commit_transaction(PATIENCE)
        else:
            producer.flush(PATIENCE)
            producer.abort_transaction(PATIENCE)
    again = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    again.init_transactions(PATIENCE)  # waits for the last markers, which are written after the answer


def hundred(pair: Pair, name: str) -> tuple[str, list[int]]:
    """A topic with a hundred records that are copied, and where each of them is on the target."""
    topic = pair.topic(name)
    pair.produce(topic, *[Made(None, b"%d" % n) for n in range(100)])
    pair.await_same(topic)
    return topic, [record.offset for record in pair.copied(topic)[0]]


def of(found: list[GroupOffset], group: str) -> GroupOffset:
    (one,) = [each for each in found if each.group == group]
    return one


@pytest.mark.both_paths
def test_groups_go_on_with_the_next_record(running: tuple[Pair, Service], flow: Flow) -> None:
    pair, _ = running
    topic = pair.topic("twenty")
    flow = replace(flow, groups=replace(flow.groups, include=(f"sync-{topic}-.*",)))  # not those of the other path
    fill(pair, topic)
    pair.await_same(topic)
    here = oracle.read(pair.source, topic)[0]
    groups = {f"sync-{topic}-{number}": here[80 * number].offset for number in range(0, 20, 3)}
    groups[f"sync-{topic}-end"] = oracle.ends(pair.source, topic, IsolationLevel.READ_COMMITTED)[0]
    for group, offset in groups.items():
        topics.commit(pair.source, group, topic, {0: offset}, metadata=group)
    topics.commit(pair.source, f"other-{topic}", topic, {0: 5})
    assert {each.committed for each in read_groups(flow).offsets} == {None}, "asking commits nothing"

    def exact(by: GroupSync) -> list[GroupOffset] | None:
        """A group at the end is ahead until the position has moved past the last transaction's marker."""
        made = by.round(RENEW)
        return made if {each.outcome for each in made} == {GroupOutcome.EXACT} else None

    with closing(GroupSync(flow)) as ours:
        found = until("all are exact", lambda: exact(ours))
    after = {each.group: (each.downstream, each.committed) for each in read_groups(flow).offsets}
    assert after == {each.group: (each.downstream, each.downstream) for each in found}
    assert {each.group for each in found} == set(groups)
    for group, offset in groups.items():
        one = of(found, group)
        upstream = Committed(offset, f"{group}\0")  # as confluent-kafka has committed it
        assert (one.partition, one.upstream, one.outcome) == (Partition(topic, 0), upstream, GroupOutcome.EXACT)
        wanted = [record.value for record in here if record.offset >= offset]
        assert oracle.next_values(pair.target, pair.remote(topic), group) == wanted
        (committed,) = committed_of(pair, topic, group)
        assert committed.metadata == group
    assert of(found, f"sync-{topic}-end").lag == 0


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often offsets are committed, by group."""
    counts: Counter[str] = Counter()
    commit = GroupCommits.commit

    def counted(self: GroupCommits, group: str, offsets: Mapping[Where, Committed], *limits: float) -> Taken | None:
        counts[group] += 1
        return commit(self, group, offsets, *limits)

    monkeypatch.setattr(GroupCommits, "commit", counted)
    return counts


def test_a_partition_without_records(running: tuple[Pair, Service], sync: GroupSync, commits: Counter[str]) -> None:
    """A Java consumer commits an offset there too: nobody has to wait for a record until it counts as exact.

    An offset that stays the same is committed once, and again when it is due to be renewed.
    """
    pair, _ = running
    topic = pair.topic("empty")
    group = f"sync-{topic}"
    topics.commit(pair.source, group, topic, {0: 0})

    def exact() -> bool:
        one = of(sync.round(RENEW), group)
        return (one.outcome, one.committed) == (GroupOutcome.EXACT, 0)

    until("it is exact", exact)
    once = commits[group]  # more than one if an answer came late
    assert exact() and exact() and commits[group] == once > 0
    assert of(sync.round(0.0), group).outcome is GroupOutcome.EXACT and commits[group] > once
    pair.produce(topic, Made(None, b"first"))
    pair.await_same(topic)
    until("and stays so once there is a record", exact)


@pytest.mark.both_paths
def test_who_has_read_all_goes_on_after_retention_has_emptied_the_remote_log(
    running: tuple[Pair, Service], sync: GroupSync
) -> None:
    """The end of the copy is before the log's beginning then, because a transaction ends with a marker."""
    pair, _ = running
    topic = pair.topic("expired")
    group, late = f"sync-{topic}", f"sync-{topic}-late"
    pair.produce(topic, *(Made(None, b"%d" % number) for number in range(5)))
    pair.await_same(topic)
    topics.commit(pair.source, group, topic, {0: 5})
    topics.commit(pair.source, late, topic, {0: 4})
    until("it is exact", lambda: of(sync.round(RENEW), group).outcome is GroupOutcome.EXACT)
    topics.remove_records(pair.target, pair.remote(topic), OFFSET_END)
    end = oracle.ends(pair.target, pair.remote(topic), IsolationLevel.READ_COMMITTED)[0]

    def is_at_the_end() -> bool:
        one = of(sync.round(RENEW), group)
        return (one.outcome, one.committed) == (GroupOutcome.EXACT, end)

    assert end > 5 and until("it is at the log's end", is_at_the_end)
    assert of(sync.round(RENEW), late).outcome is GroupOutcome.UNTRANSLATED, "what it has not read is gone"
    pair.produce(topic, Made(None, b"new"), Made(None, b"newer"))
    until("they are copied", lambda: len(pair.copied(topic)[0]) == 2)
    assert oracle.next_values(pair.target, pair.remote(topic), group) == [b"new", b"newer"]


def test_a_commit_without_an_answer_is_not_waited_for(
    running: tuple[Pair, Service], flow: Flow, target_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other commit follows until the answer has come, because the late one would replace a newer offset."""
    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 0.5)
    pair, _ = running
    topic = topics.create(pair.target, "sync-late")
    with closing(GroupCommits(flow.target)) as commits:

        def commit(offset: int) -> bool:
            return commits.commit("sync-late", {(topic, 0): Committed(offset, "")}) is not None

        def committed() -> bool:
            try:
                return commit(3)
            except ClusterAway:
                return False

        until("the first commit", committed)
        target_cluster.pause()
        try:
            for offset in (1, 2):
                with pytest.raises(ClusterAway, match="no answer in time"):
                    commit(offset)
        finally:
            target_cluster.resume()
        until("the last commit", committed)
    with closing(Consumer({"bootstrap.servers": pair.target, "group.id": "sync-late", "log_level": 0})) as consumer:
        assert consumer.committed([TopicPartition(topic, 0)], PATIENCE)[0].offset == 3


ASKS_FOR_GROUPS = """
import sys
from mirror.errors import ClusterAway, ConfigError
from mirror.kafka import cluster
from mirror.settings import Cluster

cluster.TIMEOUT = 0.5
admin = cluster.ClusterAdmin(Cluster("target", {"bootstrap.servers": sys.argv[1]}, {}, {}))
for _ in sys.stdin:
    try:
        admin.active_groups()
        print("told", flush=True)
    except ClusterAway:
        print("away", flush=True)
"""


def test_a_late_answer_about_groups_does_not_end_the_process(target_cluster: LocalCluster) -> None:
    """Such an answer ends the process if librdkafka asked for a coordinator. So the test has a process of its own."""
    command = [sys.executable, "-c", ASKS_FOR_GROUPS, target_cluster.bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as asking:
        assert asking.stdin is not None and asking.stdout is not None

        def ask() -> str:
            asking.stdin.write("\n")  # type: ignore[union-attr]
            return asking.stdout.readline().strip()  # type: ignore[union-attr]

        until("an answer", lambda: ask() == "told")
        target_cluster.pause()
        try:
            assert ask() == "away"
        finally:
            target_cluster.resume()
        until("an answer again", lambda: ask() == "told" or asking.poll() is not None)
        asking.stdin.close()
        assert asking.wait(PATIENCE) == 0


def committed_of(pair: Pair, topic: str, group: str) -> list[TopicPartition]:
    config = {"bootstrap.servers": pair.target, "group.id": group, "log_level": 0}
    with closing(Consumer(config)) as consumer:
        return list(consumer.committed([TopicPartition(pair.remote(topic), 0)], PATIENCE))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.both_paths
def test_java_s_consumer_moves_over_in_the_middle_of_a_topic(
    running: tuple[Pair, Service], sync: GroupSync, protocol: str
) -> None:
    """It reads each record once: the first ones on the source, all others on the target. `consumer` is KIP-848."""
    pair, _ = running
    topic = pair.topic(f"moves-{protocol}")
    fill(pair, topic)
    values = [record.value for record in pair.await_same(topic)[0]]
    group, first = f"sync-{topic}", 703  # which is within a transaction, after many that are aborted
    here = consume(pair.source, topic, group, first, group_protocol=protocol, auto_offset_reset="earliest")
    until("its offset is exact", lambda: of(sync.round(RENEW), group).outcome is GroupOutcome.EXACT)
    most = len(values) - first
    there = consume(pair.target, pair.remote(topic), group, most, group_protocol=protocol, auto_offset_reset="none")
    assert [*here, *there] == values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_offset_goes_back_and_members_are_left_alone(
    running: tuple[Pair, Service], flow: Flow, sync: GroupSync, protocol: str
) -> None:
    pair, _ = running
    topic, there = hundred(pair, f"careful-{protocol}")
    back, member, ahead = (f"sync-{topic}-{name}" for name in ("back", "member", "ahead"))
    topics.commit(pair.source, back, topic, {0: 10})
    topics.commit(pair.target, back, pair.remote(topic), {0: there[50]})
    topics.commit(pair.source, member, topic, {0: 10})
    topics.commit(pair.source, ahead, topic, {0: 100_000})
    config = {"bootstrap.servers": pair.target, "group.id": member, "log_level": 0, "enable.auto.commit": False}
    config["group.protocol"] = protocol
    with closing(Consumer({**config, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([pair.remote(topic)])
        until("it is a member", lambda: consumer.poll(0.2) is not None)
        found = sync.round(RENEW)
        assert of(found, back).reason.startswith(WOULD_GO_BACK) and of(found, back).committed == there[50]
        assert of(found, member).reason == HAS_MEMBERS and of(found, member).committed is None
        with closing(GroupCommits(flow.target)) as commits:  # where the list of groups did not tell
            assert not commits.commit(member, {(pair.remote(topic), 0): Committed(there[5], "")})
        one = of(found, ahead)
        assert one.outcome is GroupOutcome.AHEAD and one.committed is not None and one.committed > there[-1]
    until("it has left", lambda: of(sync.round(RENEW), member).outcome is GroupOutcome.EXACT)
    assert oracle.next_values(pair.target, pair.remote(topic), member)[0] == b"10"
    if protocol == "classic":
        topics.delete_offsets(pair.target, back, pair.remote(topic))  # somebody wants it to go back
        one = of(sync.round(RENEW), back)
        assert (one.outcome, one.committed) == (GroupOutcome.EXACT, there[10])


def test_an_offset_that_rises_while_a_round_stands_still_does_not_go_back(
    running: tuple[Pair, Service], sync: GroupSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is stopped between its look at the target and its commit, and a job comes and goes meanwhile."""
    pair, _ = running
    topic, there = hundred(pair, "stands")
    group, remote = f"sync-{topic}", pair.remote(topic)
    topics.commit(pair.source, group, topic, {0: 10})
    before, looks = sync._before, [there[50]]

    def stopped(name: str, *args: Any) -> Any:
        found = before(name, *args)
        if name == group and looks:
            topics.commit(pair.target, group, remote, {0: looks.pop()})
            time.sleep(group_sync.FRESH)
        return found

    monkeypatch.setattr(sync, "_before", stopped)
    one = of(sync.round(RENEW), group)
    (stands,) = committed_of(pair, topic, group)
    assert (stands.offset, one.outcome, one.committed) == (there[50], GroupOutcome.BACKWARDS, there[50])


def test_an_offset_that_a_transaction_commits_on_the_target_is_not_undone(
    running: tuple[Pair, Service], sync: GroupSync
) -> None:
    """A program has committed its transaction and ended, and the marker is still to come.

    Kafka drops the offset of a transaction if a later one stands before the marker. Here the transaction stays open.
    """
    pair, _ = running
    topic, there = hundred(pair, "pending")
    group, remote = f"sync-{topic}", pair.remote(topic)
    topics.commit(pair.source, group, topic, {0: 10})
    until("it is synced", lambda: of(sync.round(RENEW), group).committed == there[10])
    topics.commit(pair.source, group, topic, {0: 20})
    here = {"bootstrap.servers": pair.target}
    producer = Producer({**here, "transactional.id": group, "log_level": 0})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    with closing(Consumer({**here, "group.id": group, "log_level": 0})) as consumer:
        offsets = [TopicPartition(remote, 0, there[50])]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE)
    one = of(sync.round(0.0), group)
    assert (one.outcome, one.committed) == (GroupOutcome.DENIED, None)
    assert one.reason.startswith(f"an offset of group {group} is held by an open transaction")
    limited = Cluster("there", {**here, **ONLY_LIBRDKAFKA}, {}, {})
    with closing(GroupOffsets(limited)) as reader:
        found = reader.of(group, {one.partition: (remote, 0)}, stable=True)
    assert found == ({}, {one.partition: one.reason})
    producer.commit_transaction(PATIENCE)
    until("it stands", lambda: of(sync.round(RENEW), group).outcome is GroupOutcome.BACKWARDS)
    assert [each.offset for each in committed_of(pair, topic, group)] == [there[50]]


def test_a_remote_topic_that_is_created_again_within_a_round_gets_no_offset(
    running: tuple[Pair, Service], sync: GroupSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last partition has no record, and so no position that tells the topic's id. Another topic gets its offset."""
    pair, _ = running
    topic, other = pair.topic("again", 2), pair.topic("again-not")
    group, remote = f"sync-{topic}", pair.remote(topic)
    for each in (topic, other):
        pair.produce(each, Made(None, b"one"), Made(None, b"two"))
        pair.await_same(each)
    topics.commit(pair.source, group, topic, {0: 1, 1: 0})
    topics.commit(pair.source, group, other, {0: 1})
    before = sync._before

    def created_again(name: str, *args: Any) -> Any:
        found = before(name, *args)
        if name == group:
            topics.recreate(pair.target, remote, 2)
        return found

    monkeypatch.setattr(sync, "_before", created_again)
    found = [each for each in sync.round(RENEW) if each.group == group]
    denied = [each for each in found if each.outcome is GroupOutcome.DENIED]
    assert {each.partition for each in denied} == {Partition(topic, 0), Partition(topic, 1)}
    assert all("another topic has its name" in each.reason for each in denied)
    assert all(each.downstream is None for each in denied), "there is no checkpoint of the old topic's offset"
    (good,) = [each for each in found if each not in denied]
    assert (good.partition, good.outcome, good.committed) == (Partition(other, 0), GroupOutcome.EXACT, 1)
    there, _ = offsets_of(
        Cluster("there", {"bootstrap.servers": pair.target}, {}, {}),
        group,
        {p: (remote, p.partition) for p in (Partition(topic, 0), Partition(topic, 1))},
    )
    assert there == {}


def test_a_group_id_that_librdkafka_changes_is_left_out(running: tuple[Pair, Service], flow: Flow) -> None:
    """Any client can commit under such an id. An empty one would end the process, a blank first would name another."""
    pair, _ = running
    topic, ids = pair.topic("ids"), ["", " ", " sync-ids", "\tsync-ids"]
    with closing(GroupSync(replace(flow, groups=replace(flow.groups, include=(".*",))))) as sync:
        try:
            for each in ids:
                raw_commits.commit(pair.source, each, topic, {0: 0})
            found = sync.round(RENEW)
            assert set(ids) <= sync.refused.keys()
            assert all("the id is empty" in sync.refused[each] for each in ids)
            assert not {each.group for each in found} & {*ids, "sync-ids"}
        finally:
            for each in ids:
                topics.delete_group(pair.source, each)


def test_groups_of_other_types_are_named_with_the_reason(
    running: tuple[Pair, Service], sync: GroupSync, flow: Flow
) -> None:
    """The readers of a share group share the records, so it has no offset that mirror could translate."""
    pair, _ = running
    topic, share, streams = pair.topic("shared"), "sync-share", "sync-streams"
    with (
        sharing(pair.source, topic, share),
        sharing(pair.source, topic, "not-ours"),
        streaming(pair.source, topic, streams),
        streaming(pair.source, topic, "not-ours-either"),
    ):

        def both() -> bool:
            sync.round(RENEW)
            return len(sync.left_out) == 2

        until("the groups are listed", both)
        assert sync.left_out == {share: REASONS["share"], streams: REASONS["streams"]}
        assert not {share, streams} & sync.refused.keys()
        until("a command tells it, too", lambda: read_groups(flow).as_dict()["left_out"] == sync.left_out)


def test_positions_of_another_flow_are_no_offsets_of_the_source(
    running: tuple[Pair, Service], flow: Flow, tmp_path: Path
) -> None:
    """In a chain, or with a flow back, a flow's source has positions of another flow. Here mirror has written them."""
    pair, _ = running
    topic = pair.topic("chain")
    pair.produce(topic, *[Made(None, b"%d" % n) for n in range(10)])
    pair.await_same(topic)
    remote = Partition(pair.remote(topic), 0)
    next_ = Pair(pair.target, pair.source, "chain", f"{pair.alias}.{pair.prefix}")
    file = tmp_path / "mirror.yaml"
    groups = {"sync": True, "include": [pair.group]}
    file.write_text(yaml.safe_dump(next_.settings({"groups": groups})))
    (after,) = load(file).flows
    with closing(GroupSync(after)) as sync:
        assert not sync.round(RENEW) and sync.left_out == {pair.group: POSITIONS} and not sync.refused
    assert read_groups(after).as_dict()["left_out"] == {pair.group: POSITIONS}
    with pytest.raises(ConfigError, match="positions of a mirror flow"):
        of_group(after, pair.group)
    for properties in ({}, ONLY_LIBRDKAFKA):
        there = Cluster("there", {"bootstrap.servers": pair.target, **properties}, {}, {})
        position = offsets_of(there, pair.group, {remote: (remote.topic, 0)})[0][remote]
        assert is_position(position.metadata), "whoever reads it"
    # On the source there is the same, and a program has its offset under the name of the flow's own group.
    moves, same = f"sync-{topic}-moves", f"sync-{topic}"
    topics.commit(pair.source, moves, topic, {0: 5}, metadata=position.text)
    topics.commit(pair.source, pair.group, topic, {0: 5})
    topics.commit(pair.source, same, topic, {0: 5})
    own, (before,) = committed_of(pair, topic, pair.group)[0].offset, committed_of(pair, topic, moves)
    ours = replace(flow, groups=replace(flow.groups, include=(f"sync-{topic}.*", pair.group)))
    with closing(GroupSync(ours)) as sync:
        found = sync.round(RENEW)
        assert sync.left_out == {moves: POSITIONS, pair.group: OWN_GROUP}
        assert [(each.group, each.outcome, each.committed) for each in found] == [(same, GroupOutcome.EXACT, 5)]
        assert committed_of(pair, topic, moves)[0].offset == before.offset == OFFSET_INVALID
        assert committed_of(pair, topic, pair.group)[0].offset == own == 10
        # And on the target another flow has its position under the name of a group that programs have on the source.
        topics.commit(pair.target, same, remote.topic, {0: 3}, metadata=position.text)
        topics.commit(pair.source, same, topic, {0: 6})
        one = of(sync.round(RENEW), same)
    assert (one.outcome, one.reason, one.committed) == (GroupOutcome.DENIED, POSITIONS_THERE, 3)
    (stands,) = committed_of(pair, topic, same)
    assert (stands.offset, stands.metadata) == (3, position.text)


def test_the_metadata_of_java_s_consumer_is_kept(running: tuple[Pair, Service], sync: GroupSync) -> None:
    """Byte for byte: it has no NUL at its end. confluent-kafka's has one, and reads up to it, so that one is kept, too.

    Where only librdkafka can log in, the metadata is not read.
    """
    pair, _ = running
    topic = pair.topic("metadata", 3)
    group, partitions = f"sync-{topic}", [Partition(topic, number) for number in range(3)]
    raw_commits.commit(pair.source, group, topic, {0: 0}, "AgABCQ==")
    topics.commit(pair.source, group, topic, {1: 0}, metadata="mine")
    raw_commits.commit(pair.source, group, topic, {2: 0})
    wanted = dict(zip(partitions, [Committed(0, "AgABCQ=="), Committed(0, "mine\0"), Committed(0, "")], strict=True))

    def exact() -> dict[Partition, Committed] | None:
        found = [each for each in sync.round(RENEW) if each.group == group]
        is_exact = [(each.outcome, each.committed) for each in found] == [(GroupOutcome.EXACT, 0)] * 3
        return {each.partition: each.upstream for each in found} if is_exact else None

    assert until("all are exact", exact) == wanted
    there = {"bootstrap.servers": pair.target}
    remote = {each: (pair.remote(topic), each.partition) for each in partitions}
    assert offsets_of(Cluster("there", there, {}, {}), group, remote) == (wanted, {})
    limited = Cluster("there", {**there, **ONLY_LIBRDKAFKA}, {}, {})
    assert offsets_of(limited, group, remote) == (dict.fromkeys(partitions, Committed(0, "")), {})


def test_librdkafka_commits_where_only_it_can_log_in(running: tuple[Pair, Service]) -> None:
    """librdkafka puts a NUL at the end of the metadata."""
    pair, _ = running
    topic, there = topics.create(pair.target, "sync-limited"), {"bootstrap.servers": pair.target}
    offsets = {("sync-limited", 0): Committed(3, "AgABCQ==")}
    with closing(GroupCommits(Cluster("there", {**there, **ONLY_LIBRDKAFKA}, {}, {}))) as commits:

        def committed() -> bool:
            try:
                return commits.commit("sync-limited", offsets) is not None
            except ClusterAway:  # the coordinator may still be loading
                return False

        until("it is committed", committed)
    partition = Partition(topic, 0)
    found = offsets_of(Cluster("there", there, {}, {}), "sync-limited", {partition: (topic, 0)})
    assert found == ({partition: Committed(3, "AgABCQ==\0")}, {})


@pytest.mark.parametrize("properties", [{}, ONLY_LIBRDKAFKA])
def test_what_the_target_refuses_of_a_group_holds_up_no_other_partition(
    running: tuple[Pair, Service], sync: GroupSync, monkeypatch: pytest.MonkeyPatch, properties: Mapping[str, str]
) -> None:
    """Here it is the metadata: it is longer than brokers take it, and is left out.

    librdkafka does not say of which partition, so that none has its metadata then.
    """
    pair, _ = running
    limited = Cluster("there", {"bootstrap.servers": pair.target, **properties}, {}, {})
    topic = pair.topic(f"refused-{len(properties)}", 2)
    group, partitions = f"sync-{topic}", [Partition(topic, number) for number in range(2)]
    topics.commit(pair.source, group, topic, {0: 0, 1: 0}, metadata="mine")
    of_source = sync._groups.offsets

    def long() -> dict[str, dict[Partition, Committed]]:
        found = of_source()
        return {group: found[group] | {partitions[1]: Committed(0, 5_000 * "x")}}

    def exact() -> list[GroupOffset] | None:
        found = [each for each in sync.round(0.0) if each.group == group]
        return found if [each.outcome for each in found] == [GroupOutcome.EXACT] * 2 else None

    monkeypatch.setattr(sync._groups, "offsets", long)
    with closing(GroupCommits(limited)) as commits:
        monkeypatch.setattr(sync._there, "_commits", commits)
        found = until("both are exact", exact)
    first = WITHOUT_METADATA if properties else ""
    assert [(each.committed, each.reason) for each in found] == [(0, first), (0, WITHOUT_METADATA)]


def test_a_group_with_more_metadata_than_a_batch_holds_is_synced(running: tuple[Pair, Service], flow: Flow) -> None:
    """Kafka writes the offsets of a commit as one batch: it refuses all of these, though each is well."""
    pair, _ = running
    topic, metadata = pair.topic("much", 300), 4_000 * "x"
    group, numbers = f"sync-{topic}", range(300)
    for first in numbers[::50]:
        raw_commits.commit(pair.source, group, topic, dict.fromkeys(numbers[first : first + 50], 0), metadata)
    remote = {Partition(topic, number): (pair.remote(topic), number) for number in numbers}
    until("the remote topic is there", lambda: topics.partitions(pair.target, pair.remote(topic)) == 300)
    with closing(GroupCommits(flow.target)) as commits:
        _, refused = commits.commit(group, {where: Committed(0, metadata) for where in remote.values()}) or ({}, {})
    assert len(refused) == 300
    only = replace(flow, groups=replace(flow.groups, include=(group,)))
    with closing(GroupSync(only)) as ours:
        until("all are exact", lambda: {each.outcome for each in ours.round(RENEW)} == {GroupOutcome.EXACT})
    assert offsets_of(flow.target, group, remote) == (dict.fromkeys(remote, Committed(0, metadata)), {})


def test_what_cannot_be_translated_has_its_reason(running: tuple[Pair, Service], sync: GroupSync) -> None:
    """A topic that is not mirrored, a record that the target does not have, an end of the map that is hidden."""
    pair, _ = running
    strange, topic = topics.create(pair.source, "not-sync"), pair.topic("reasons")
    fill(pair, topic)
    pair.await_same(topic)
    there = [record.offset for record in pair.copied(topic)[0]]
    first = oracle.read(pair.source, topic)[0][0].offset
    groups = {name: f"sync-{topic}-{name}" for name in ("strange", "before", "after")}
    topics.commit(pair.source, groups["strange"], strange, {0: 7})
    topics.commit(pair.source, groups["before"], topic, {0: first})
    topics.remove_records(pair.target, pair.remote(topic), there[800])
    found = sync.round(RENEW)
    one = of(found, groups["strange"])
    assert (one.outcome, one.reason, one.committed) == (GroupOutcome.UNTRANSLATED, NOT_MIRRORED, None)
    one = of(found, groups["before"])
    assert (one.outcome, one.reason, one.committed) == (GroupOutcome.UNTRANSLATED, Unknown.BEFORE_THE_MAP.value, None)
    lasting = {"transactional.id": "not-sync", "transaction.timeout.ms": 900_000}  # as long as a broker allows
    stranger = Producer({"bootstrap.servers": pair.target, **lasting, "log_level": 0})
    stranger.init_transactions(PATIENCE)
    stranger.begin_transaction()
    stranger.produce(f"mirror-offset-map.{pair.alias}.internal", b"?", b"key")
    stranger.flush(PATIENCE)
    try:
        fill(pair, topic)  # with entries that nobody can read while that transaction is open
        until("it is copied", lambda: len(pair.copied(topic)[0]) == len(there) - 800 + len(there))
        topics.commit(pair.source, groups["after"], topic, {0: oracle.read(pair.source, topic)[0][-1].offset})
        one = of(sync.round(RENEW), groups["after"])
        assert (one.outcome, one.reason, one.committed) == (GroupOutcome.UNTRANSLATED, Unknown.HIDDEN.value, None)
    finally:
        stranger.abort_transaction(PATIENCE)
    until("it is known", lambda: of(sync.round(RENEW), groups["after"]).outcome is GroupOutcome.EXACT)


def test_a_topic_that_would_share_a_remote_topic_is_not_mirrored(running: tuple[Pair, Service], flow: Flow) -> None:
    """The copy there is that of another topic, whose map says nothing of this one's offsets."""
    pair, _ = running
    topic, other = pair.topic("holder"), pair.topic("held-up")
    for each in (topic, other):
        pair.produce(each, *[Made(None, b"%d" % n) for n in range(10)])
        pair.await_same(each)
    groups = {each: f"sync-{each}" for each in (topic, other)}
    for each, group in groups.items():
        topics.commit(pair.source, group, each, {0: 5})
    told = replace(flow, topic_settings={other: own_name(pair.remote(topic))})
    with closing(GroupSync(told)) as sync:
        found = sync.round(RENEW)
    assert of(found, groups[topic]).outcome is GroupOutcome.EXACT
    one = of(found, groups[other])
    why = f"its remote topic would be {pair.remote(topic)}, which holds the copy of {topic}"
    assert (one.outcome, one.reason) == (GroupOutcome.UNTRANSLATED, f"{NOT_MIRRORED}: {why}")
    with pytest.raises(ConfigError, match=f"does not mirror topic {other}: {why}"):
        translate(told, {Partition(other, 0): 5})
    topics.commit(pair.source, groups[topic], other, {0: 5})
    held, good = translate(told, of_group(told, groups[topic]))
    assert (held.partition, held.offset, held.translated, held.reason) == (Partition(other, 0), 5, None, one.reason)
    assert (good.partition, good.reason) == (Partition(topic, 0), "") and good.translated is not None


def of_status(service: Service, topic: str, group: str) -> tuple[float, int | None, dict[str, int]]:
    """When the last group round ended, the topic's lag, and the group's outcomes."""
    (flow,) = json.loads(service.get("/status")[1])["flows"]
    (lag,) = [each["lag"]["records"] for each in flow["topics"] if each["topic"] == topic] or [None]
    (view,) = [each for each in (flow["groups"] or {"groups": []})["groups"] if each["group"] == group] or [None]
    outcomes = {} if view is None else {name: n for name, n in view["partitions_by_outcome"].items() if n}
    return (flow["groups"] or {"at": None})["at"] or 0.0, lag, outcomes


def assert_status_shows(service: Service, topic: str, group: str, most: int) -> None:
    """The group stands as `mirror status --groups` says, which asks the clusters itself."""
    (found,) = json.loads(mirror("status", "-c", service.file, "--groups", "--json").stdout)["flows"]
    (stands,) = [each for each in found["groups"]["offsets"] if each["group"] == group]
    assert (stands["topic"], stands["outcome"], stands["reason"]) == (topic, "exact", "")
    assert stands["translated"] == stands["committed"] >= most
    (row,) = [line for line in mirror("status", "-c", service.file, "--groups").stdout.splitlines() if group in line]
    assert row.split()[:2] == [group, f"{topic}-0"] and "exact" in row.split()


def test_a_fail_over_as_the_readme_tells_it(running: tuple[Pair, Service], source_cluster: LocalCluster) -> None:
    """Step by step, with Java's consumer and what the service shows; and then with a source that is gone."""
    pair, service = running
    topic = pair.topic("fails-over")
    fill(pair, topic)
    values = [record.value for record in pair.await_same(topic)[0]]
    group, lost, first = f"over-{topic}", f"over-{topic}-lost", 703
    here = consume(pair.source, topic, group, first, auto_offset_reset="earliest")  # 1. it has stopped
    ended = {time.time()}

    def may_start() -> bool:  # 2. two rounds have ended since, for the first one may have begun before
        at, lag, outcomes = of_status(service, topic, group)
        if at > max(ended):
            ended.add(at)
        return len(ended) > 2 and lag == 0 and outcomes == {"exact": 1}

    service.wait_for("no lag, and exact", may_start)
    assert service.metric("mirror_group_synced_timestamp_seconds", group=group) > min(ended), "it is in step"
    assert_status_shows(service, topic, group, first)
    most = len(values) - first
    there = consume(pair.target, pair.remote(topic), group, most, auto_offset_reset="none")  # 3.
    assert [*here, *there] == values

    read = consume(pair.source, topic, lost, 300, auto_offset_reset="earliest")
    service.wait_for("a round", lambda: of_status(service, topic, lost)[2] == {"exact": 1})
    read += consume(pair.source, topic, lost, 200)
    source_cluster.brokers[0].kill()
    try:
        most = len(values) - 300
        there = consume(pair.target, pair.remote(topic), lost, most, auto_offset_reset="none")
    finally:
        source_cluster.brokers[0].start()
    assert there == values[-len(there) :], "it passes over nothing"
    assert len(values) - 500 <= len(there) <= len(values) - 300, "and reads at most again what it has read since"
    service.wait_for("rounds go on", lambda: of_status(service, topic, lost)[0] > time.time() - 5)
