"""Commits of groups: their metadata is kept, members are left alone, and an older commit never comes after a newer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from mirror.errors import ClusterAway, PartitionError
from mirror.groups import commits_of_librdkafka, group_commits
from mirror.groups.group_commits import PART_MAX, GroupCommits, TooLate, in_parts
from mirror.groups.group_offsets import Committed
from mirror.settings import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.offsets import Offset, Where
from tests.harness import fake_broker
from tests.harness.fake_coordinator import FIND_COORDINATOR, OFFSET_COMMIT, Commit, FakeCoordinator

FIRST, SECOND = ("orders", 0), ("orders", 1)
OFFSETS = {FIRST: Committed(7, "AgABCQ=="), SECOND: Committed(8, "mine\0"), ("payments", 0): Committed(9, "")}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCoordinator]:
    with FakeCoordinator(monkeypatch) as made:
        yield made


@pytest.fixture
def commits(broker: FakeCoordinator) -> Iterator[GroupCommits]:
    with closing(GroupCommits(cluster(broker))) as made:
        yield made


def cluster(broker: FakeCoordinator, **more: str) -> Cluster:
    return Cluster("backup", {**broker.properties, **more}, {}, {})


def once(error: str) -> Callable[[Commit], Mapping[Where, int]]:
    """The first commit gets this error for each offset, the others none."""
    errors = iter([CODES[error]])
    return lambda made: dict.fromkeys(made.offsets, next(errors, 0))


def test_no_part_has_more_than_a_broker_takes() -> None:
    """The names count too: each record of __consumer_offsets has the group's and the topic's."""
    for group, topic, metadata in (("g", "orders", 4_000 * "x"), (30_000 * "g", "orders", ""), ("g", 200 * "t", "")):
        offsets = {(topic, number): Committed(7, metadata) for number in range(1_500)}
        parts = list(in_parts(group, offsets))
        assert {where: at for part in parts for where, at in part.items()} == offsets
        each = len(group) + len(topic) + len(metadata)
        assert len(parts) > 1 and all(each * len(part) <= PART_MAX for part in parts)
    assert list(in_parts("g", OFFSETS)) == [OFFSETS] and not list(in_parts("g", {}))
    alone = {FIRST: Committed(7, PART_MAX * "x")}
    assert list(in_parts("g", alone)) == [alone], "the broker says what is wrong with it"


def test_metadata_is_kept_and_no_member_is_named(broker: FakeCoordinator, commits: GroupCommits) -> None:
    assert commits.commit("g", OFFSETS)
    wanted = {where: Offset(at.offset, at.metadata, -1) for where, at in OFFSETS.items()}
    assert broker.commits == [Commit("g", -1, "", None, wanted)]


def test_the_broker_is_told_for_how_long_to_keep_offsets_of_some_groups(
    broker: FakeCoordinator, commits: GroupCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a version that has no leader epochs. A broker that does not have it any more gets the usual one."""
    offsets = {FIRST: Committed(7, "mine\0", 3)}
    plain, with_epoch = {FIRST: Offset(7, "mine\0")}, {FIRST: Offset(7, "mine\0", 3)}
    with commits.round(["g", "h"], {"g": 600.5}):
        assert commits.commit("g", offsets) == commits.commit("h", offsets) == (offsets, {})
    with commits.round(["g"]):
        assert commits.commit("g", offsets) == (offsets, {})
    monkeypatch.setitem(fake_broker.VERSIONS, OFFSET_COMMIT, (5, 8))
    with commits.round(["g"], {"g": 600.5}):
        assert commits.commit("g", offsets) == (offsets, {})
    assert broker.commits == [
        Commit("g", -1, "", None, plain, keep=600_500),
        Commit("h", -1, "", None, with_epoch),
        Commit("g", -1, "", None, with_epoch),
        Commit("g", -1, "", None, with_epoch),
    ]


def test_a_group_with_members_is_no_error(broker: FakeCoordinator, commits: GroupCommits) -> None:
    broker.commit = once("UNKNOWN_MEMBER_ID")
    assert not commits.commit("g", OFFSETS)
    assert commits.commit("g", OFFSETS)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", "Topic authorization failed"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "Unknown topic or partition"),
    ],
)
def test_each_partition_has_its_own_error(
    broker: FakeCoordinator, commits: GroupCommits, error: str, said: str
) -> None:
    """It counts even if the broker says of other partitions that the group has members. These are not refused."""
    reason = f"the offsets of group g can't be committed: {error} (Broker: {said})"
    broker.commit = lambda made: dict.fromkeys(made.offsets, CODES["UNKNOWN_MEMBER_ID"]) | {FIRST: CODES[error]}
    assert commits.commit("g", OFFSETS) == ({}, {FIRST: reason})
    assert len(broker.commits) == 1
    broker.commit = lambda made: dict.fromkeys(made.offsets, 0) | {SECOND: CODES[error]}
    rest = {where: at for where, at in OFFSETS.items() if where != SECOND}
    assert commits.commit("g", OFFSETS) == (rest, {SECOND: reason})


def test_an_offset_whose_metadata_is_too_long_is_committed_without_it(
    broker: FakeCoordinator, commits: GroupCommits
) -> None:
    """The target's offset.metadata.max.bytes may be smaller than the source's."""
    broker.commit = lambda made: {
        where: CODES["OFFSET_METADATA_TOO_LARGE"] if at.metadata else 0 for where, at in made.offsets.items()
    }
    bare = {where: Committed(at.offset, "") for where, at in OFFSETS.items()}
    assert commits.commit("g", OFFSETS) == (bare, {})
    assert [made.offsets.keys() for made in broker.commits] == [OFFSETS.keys(), {FIRST: 0, SECOND: 0}.keys()]
    broker.commit = lambda made: dict.fromkeys(made.offsets, CODES["OFFSET_METADATA_TOO_LARGE"])
    taken, refused = commits.commit("g", OFFSETS) or ({}, {})
    assert not taken and refused.keys() == OFFSETS.keys(), "it is not tried for ever"


def test_an_answer_without_an_offset_is_malformed(broker: FakeCoordinator, commits: GroupCommits) -> None:
    broker.commit = lambda made: {where: 0 for where in made.offsets if where != SECOND}
    with pytest.raises(PartitionError, match="the answer to OffsetCommit does not have orders-1"):
        commits.commit("g", OFFSETS)


@pytest.mark.parametrize(
    "error",
    ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT"],
)
def test_a_coordinator_that_moves_or_loads_is_asked_again(
    broker: FakeCoordinator, commits: GroupCommits, error: str
) -> None:
    broker.commit = once(error)
    assert commits.commit("g", OFFSETS)
    assert len(broker.commits) == 2 and broker.count(FIND_COORDINATOR) == 2


def test_a_coordinator_that_never_gets_ready_is_away(
    broker: FakeCoordinator, commits: GroupCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has answered each time, so the next commit need not wait."""
    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 1.0)
    monkeypatch.setattr(group_commits, "POLL", 10.0)  # where it is about to answer
    broker.commit = lambda made: dict.fromkeys(made.offsets, CODES["NOT_COORDINATOR"])
    with pytest.raises(ClusterAway, match="can't be committed: OffsetCommit was answered with NOT_COORDINATOR"):
        commits.commit("g", OFFSETS)
    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 10.0)
    broker.commit = once("NONE")
    assert commits.commit("g", OFFSETS)


def test_a_commit_is_not_sent_again_after_its_time(broker: FakeCoordinator, commits: GroupCommits) -> None:
    """Somebody else may have committed a higher offset while the coordinator moved."""
    until = time.monotonic() + 1.0

    def moves(made: Commit) -> Mapping[Where, int]:
        time.sleep(max(0.0, until - time.monotonic()))
        return dict.fromkeys(made.offsets, CODES["NOT_COORDINATOR"])

    broker.commit = moves
    with pytest.raises(TooLate, match="can't be committed: OffsetCommit was answered with NOT_COORDINATOR"):
        commits.commit("g", OFFSETS, until)
    assert len(broker.commits) == 1
    broker.commit = once("NONE")
    assert commits.commit("g", OFFSETS, time.monotonic() + 60.0)


def test_a_commit_is_not_sent_after_its_time(
    broker: FakeCoordinator, commits: GroupCommits, librdkafka: list[Committer]
) -> None:
    """The process may have been stopped meanwhile. The same holds for librdkafka."""
    limited = cluster(broker, **{"broker.address.ttl": "1000"})
    with closing(GroupCommits(limited)) as of_librdkafka:
        for each in (commits, of_librdkafka):
            with pytest.raises(TooLate) as raised:
                each.commit("g", OFFSETS, time.monotonic())
            said = "cluster backup: the offsets of group g can't be committed: it is too long since mirror has read"
            assert str(raised.value).startswith(said), "the cluster may well answer"
    assert not broker.commits and not librdkafka


def test_it_follows_the_coordinator(
    broker: FakeCoordinator, commits: GroupCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCoordinator(monkeypatch) as other:

        def moved(made: Commit) -> Mapping[Where, int]:
            broker.port_of_coordinator = other.port
            return dict.fromkeys(made.offsets, CODES["NOT_COORDINATOR"])

        broker.commit = moved
        assert commits.commit("g", OFFSETS)
        assert len(broker.commits) == len(other.commits) == 1


def test_after_a_lost_connection_the_same_commit_is_sent_again(broker: FakeCoordinator, commits: GroupCommits) -> None:
    def lost(made: Commit) -> None:
        broker.commit = once("NONE")
        broker.disconnect()

    broker.commit = lost
    assert commits.commit("g", OFFSETS)
    assert len(broker.commits) == 2 and broker.commits[0] == broker.commits[1]


def test_no_commit_follows_one_that_has_lost_its_connection(
    broker: FakeCoordinator, commits: GroupCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is so old that it can't be carried out any more."""

    def lost(made: Commit) -> None:
        broker.port_of_coordinator = 1  # where nobody listens
        broker.disconnect()

    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 1.0)
    broker.commit = lost
    with commits.round(()), pytest.raises(ClusterAway, match="can't be committed"):
        commits.commit("g", OFFSETS)
    broker.port_of_coordinator, broker.commit = broker.port, once("NONE")
    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 10.0)
    with commits.round(()):
        with pytest.raises(ClusterAway, match="the offsets of group g can't be committed: no answer in time"):
            commits.commit("g", OFFSETS)
        assert commits.commit("another", OFFSETS)
        assert [made.group for made in broker.commits] == ["g", "another"]
    monkeypatch.setattr(group_commits, "FORGOTTEN_AFTER", 0.0)
    assert commits.commit("g", OFFSETS)


def test_a_commit_that_was_never_sent_does_not_delay_the_next_one(
    broker: FakeCoordinator, commits: GroupCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 1.0)
    broker.port_of_coordinator = 1
    with pytest.raises(ClusterAway, match="can't be reached"):
        commits.commit("g", OFFSETS)
    monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 10.0)
    broker.port_of_coordinator = broker.port
    assert commits.commit("g", OFFSETS)


def test_no_commit_follows_one_without_an_answer_until_it_comes(
    broker: FakeCoordinator, commits: GroupCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None follows in the next round either. Groups of the same coordinator do not wait for the answer."""
    hangs = threading.Event()

    def late(made: Commit) -> Mapping[Where, int]:
        if made.group == "g":
            hangs.wait(30.0)
        return dict.fromkeys(made.offsets, 0)

    def with_patience(seconds: float) -> object:
        monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", seconds)
        return commits.commit("g", OFFSETS)

    broker.commit = late
    try:
        with commits.round(()):
            with pytest.raises(ClusterAway, match=r"backup does not answer: .* group g .*: no answer in time"):
                with_patience(1.0)
            monkeypatch.setattr(group_commits, "ANSWER_TIMEOUT", 10.0)
            assert commits.commit("another", OFFSETS)
        with commits.round(()), pytest.raises(ClusterAway, match="no answer in time"):
            with_patience(10.0)
        assert [made.group for made in broker.commits] == ["g", "another"]
    finally:
        hangs.set()
    monkeypatch.setattr(group_commits, "POLL", 10.0)  # until the answer comes
    with commits.round(()):
        assert with_patience(10.0)
    assert [made.group for made in broker.commits] == ["g", "another", "g"]


def test_connections_last_for_a_round(broker: FakeCoordinator, commits: GroupCommits) -> None:
    def greetings() -> int:
        return broker.count(fake_broker.API_VERSIONS)

    with commits.round(()):
        assert commits.commit("g", OFFSETS)
        opened = greetings()
        assert commits.commit("g", OFFSETS) and greetings() == opened
    with commits.round(()):
        assert commits.commit("g", OFFSETS) and greetings() == 2 * opened


def test_the_coordinators_of_a_round_are_found_at_once(broker: FakeCoordinator, commits: GroupCommits) -> None:
    groups = [f"g{number}" for number in range(100)]
    with commits.round(groups):
        assert not broker.requests, "perhaps nothing is to be committed"
        assert all(commits.commit(each, OFFSETS) for each in groups)
    assert broker.count(FIND_COORDINATOR) == 1 and [made.group for made in broker.commits] == groups


class Committer:
    """In place of librdkafka's consumer."""

    made: list[Committer]

    def __init__(self, cluster: Cluster, group: str, on_commit: Callable[..., None]) -> None:
        self.group, self._on_commit, self.closed = group, on_commit, False
        self.places: list[TopicPartition] = []
        self.answers = True
        self.error: KafkaError | None = None
        self.made.append(self)

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        self.places = offsets

    def poll(self, timeout: float) -> None:
        if self.answers:
            self._on_commit(self.error, self.places)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def librdkafka(monkeypatch: pytest.MonkeyPatch) -> list[Committer]:
    """Those that are made."""
    Committer.made = []
    monkeypatch.setattr(commits_of_librdkafka, "group_committer", Committer)
    return Committer.made


def placed(committer: Committer) -> dict[Where, tuple[int, Any]]:
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in committer.places}


CUT = {FIRST: (7, "AgABCQ=="), SECOND: (8, "mine"), ("payments", 0): (9, "")}  # confluent-kafka adds the NUL


def test_librdkafka_commits_where_only_it_can_log_in(broker: FakeCoordinator, librdkafka: list[Committer]) -> None:
    limited = cluster(broker, **{"broker.address.ttl": "1000"})
    with closing(GroupCommits(limited)) as commits:
        assert commits.commit("g", OFFSETS)
    (one,) = librdkafka
    assert one.group == "g" and placed(one) == CUT and one.closed and not broker.requests


def test_librdkafka_commits_on_brokers_that_are_too_old_for_us(
    broker: FakeCoordinator, commits: GroupCommits, librdkafka: list[Committer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each round our client tries first: brokers are upgraded while mirror runs."""
    newer = dict(fake_broker.VERSIONS)
    monkeypatch.setitem(fake_broker.VERSIONS, FIND_COORDINATOR, (0, 3))
    with commits.round(()):
        assert commits.commit("g", OFFSETS) and commits.commit("g", OFFSETS)
    assert [placed(each) for each in librdkafka] == [CUT, CUT] and not broker.count(OFFSET_COMMIT)
    monkeypatch.setattr(fake_broker, "VERSIONS", newer)
    with commits.round(()):
        assert commits.commit("g", OFFSETS)
    assert len(librdkafka) == 2 and broker.count(OFFSET_COMMIT) == 1


def test_what_librdkafka_says(broker: FakeCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TIMED_OUT]
    errors += [KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaError.NO_ERROR]

    class Failing(Committer):
        def poll(self, timeout: float) -> None:
            code = errors.pop(0)
            self.error = KafkaError(code) if code else None
            super().poll(timeout)

    Failing.made = []
    monkeypatch.setattr(commits_of_librdkafka, "group_committer", Failing)
    with closing(GroupCommits(cluster(broker, **{"broker.address.ttl": "1000"}))) as commits:
        assert not commits.commit("g", OFFSETS)
        taken, refused = commits.commit("g", OFFSETS) or ({}, {})
        assert not taken and refused.keys() == OFFSETS.keys()
        assert "can't be committed: GROUP_AUTHORIZATION_FAILED (Broker: Group authorization failed)" in refused[FIRST]
        with pytest.raises(ClusterAway, match=r"offsets of group g can't be committed: .*Timed out"):
            commits.commit("g", OFFSETS)
        bare = {where: Committed(at.offset, "") for where, at in OFFSETS.items()}
        assert commits.commit("g", OFFSETS) == (bare, {})


def test_no_commit_follows_one_of_librdkafka_without_an_answer(
    broker: FakeCoordinator, commits: GroupCommits, librdkafka: list[Committer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None follows through librdkafka, nor through our own client once that can be used."""

    class Silent(Committer):
        def poll(self, timeout: float) -> None:
            """Nothing comes."""

    monkeypatch.setattr(commits_of_librdkafka, "group_committer", Silent)
    monkeypatch.setattr(commits_of_librdkafka, "ANSWER_TIMEOUT", 0.1)
    newer = dict(fake_broker.VERSIONS)
    monkeypatch.setitem(fake_broker.VERSIONS, FIND_COORDINATOR, (0, 3))
    for _ in range(2):
        with commits.round(()), pytest.raises(ClusterAway, match="no answer in time"):
            commits.commit("g", OFFSETS)
    monkeypatch.setattr(fake_broker, "VERSIONS", newer)
    with commits.round(()), pytest.raises(ClusterAway, match="no answer in time"):
        commits.commit("g", OFFSETS)
    assert len(librdkafka) == 1 and not broker.commits
    monkeypatch.setattr(commits_of_librdkafka, "FORGOTTEN_AFTER", 0.0)
    assert commits.commit("g", OFFSETS) and len(broker.commits) == 1
