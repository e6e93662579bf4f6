"""The reader of the control topic: records that it cannot decode, slow topics, and recreated ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mirror.config.load import load
from mirror.control import control_reader, control_topics
from mirror.control.control_reader import TOGETHER, ControlReader
from mirror.control.control_topics import PLAN_KEY, READ_TIMEOUT, Claim
from mirror.control.decisions import Decision, Incident
from mirror.control.orders import Order, Scope
from mirror.control.plan import Plan
from mirror.control.verification import VERIFY_KEY, Verification
from mirror.errors import ClusterAway, FlowError, ForeignPlan
from mirror.kafka.topic_ids import TopicIds
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.text import SAID_MAX
from tests.harness.configuration import one_flow

Entry = tuple[bytes, bytes | None]

DECISION = Decision(Partition("t", 1), Incident("deleted", "id", "", 5), "skip")
VERIFIED = Verification(1.5, True, 7, 0, 0)
PLAN = Plan("us", 7, {"t": Topic("a.t", "id", 2, 1)}, (frozenset({Partition("t", 0)}), frozenset({Partition("t", 1)})))
NEXT = replace(PLAN, generation=8)
TWICE = replace(NEXT, slices=(PLAN.slices[0], PLAN.slices[0] | PLAN.slices[1]))  # a partition is in two slices
FOREIGN = b'{"leader":"them","generation":9,"topics":{"t":{"remote":"a.t"}},"slices":[]}'


@dataclass
class Message:
    """A record as a consumer returns it."""

    entry: Entry
    at: int

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.entry[0]

    def value(self) -> bytes | None:
        return self.entry[1]


@dataclass
class Log:
    """The control topic, and the consumer that reads it: each record takes `pace` seconds of a clock of its own."""

    entries: list[Entry] = field(default_factory=list)
    begin: int = 0  # records before this one are deleted
    held_back: int = 0  # last records that never arrive
    pace: float = 0.0
    unready: int = 0  # how often the topic's leader is still unknown when it is asked for
    at: int | None = None  # None: nothing is fetched
    topic_id: str = "first"
    topic: str = ""
    known_id: str = ""  # the topic id that librdkafka has logged last
    ids: TopicIds = field(default_factory=TopicIds)
    now: float = 0.0

    def recreate(self, *entries: Entry) -> None:
        """Delete the topic and create it again, with these records."""
        self.topic_id += "-next"
        self.entries, self.begin = list(entries), 0

    def shorten(self, left: int) -> None:
        """Lose all but so many first records, as when a replica that lags becomes leader. The topic stays the same."""
        del self.entries[left:]

    def ids_now(self, names: Sequence[str]) -> tuple[dict[str, str], dict[str, object]]:
        return dict.fromkeys(names, self.topic_id), {}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.at, self.topic = partitions[0].offset, partitions[0].topic

    def unassign(self) -> None:
        self.at = None

    def get_watermark_offsets(self, _partition: object, _timeout: float) -> tuple[int, int]:
        self.unready -= 1
        if self.unready >= 0:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return self.begin, len(self.entries)

    def poll(self, timeout: float) -> Message | None:
        if self.at is not None and self.known_id != self.topic_id:  # librdkafka's line, before it fetches from there
            line = f"[thrd:main]: Topic {self.topic} changed id from {self.known_id or 'AAAA'} to {self.topic_id}"
            self.ids.log(logging.DEBUG, "", "METADATA", "client", line)
            self.known_id = self.topic_id
        if self.at is not None and not self.begin <= self.at <= len(self.entries):
            self.at = self.begin  # auto.offset.reset
        if self.at is None or self.at >= len(self.entries) - self.held_back:
            self.now += timeout
            return None
        self.now += self.pace
        self.at += 1
        return Message(self.entries[self.at - 1], self.at - 1)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    path = tmp_path / "mirror.yaml"
    path.write_text(yaml.safe_dump(one_flow("source:9092", "target:9092", ["t"], alias="primary")))
    return load(path).flows[0]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The control topic that readers in this test read."""
    topic = Log()
    monkeypatch.setattr(control_reader, "internal_consumer", lambda *_: topic)
    monkeypatch.setattr(control_reader, "ClusterAdmin", lambda *_: topic)
    monkeypatch.setattr(control_reader, "TopicIds", lambda: topic.ids)
    monkeypatch.setattr(control_reader, "time", topic)
    monkeypatch.setattr(control_topics, "time", topic)
    return topic


def plans(*some: Plan) -> list[Entry]:
    return [(PLAN_KEY, each.encode()) for each in some]


GOOD: list[Entry] = [
    *plans(PLAN),
    (Claim(1, "task").key(), Claim(1, "task").encode()),
    (VERIFY_KEY, VERIFIED.encode()),
    (Scope("t").key(), Order(True).encode()),
    (DECISION.key(), DECISION.encode()),
]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"claim/", b'{"task":"other"}'),
        (b"claim/first", b'{"task":"other"}'),
        (b"claim/1", b'{"worker":"other"}'),
        (b"claim/1", b"not json"),
        (b"order/", b'{"paused":false}'),
        (b"order/t", b'{"paused":false}'),
        (b"order/3", b'{"paused":false}'),
        (b"order/*/3", b'{"paused":false}'),
        (b"order/t/first", b'{"paused":false}'),
        (b"order/\xff/1", b'{"paused":false}'),
        (b"order/t/*", b'{"state":"running"}'),
        (b"order/t/*", b"[]"),
        (b"decision/", DECISION.encode()),
        (b"decision/1", DECISION.encode()),
        (b"decision/t/1", b'{"action":"skip"}'),
        (b"decision/t/1", DECISION.encode().replace(b'"skip"', b'"drop"')),
        (b"decision/t/1", DECISION.encode().replace(b"5", b"1e999")),
        (b"verify", VERIFIED.encode().replace(b"true", b"1")),
    ],
)
def test_a_record_that_cannot_be_decoded_is_logged_and_ignored(
    flow: Flow, topic: Log, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes
) -> None:
    topic.entries += [*GOOD, (key, value), *plans(NEXT)]
    reader = ControlReader(flow)
    reader.read_to_end()
    assert reader.plan == NEXT
    assert (reader.claims, reader.orders) == ({1: "task"}, {Scope("t"): Order(True)})
    assert reader.decisions == {Partition("t", 1): DECISION}
    assert reader.verified == VERIFIED
    (said,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert (said["flow"], said["key"]) == ("primary->backup", key.decode(errors="replace"))
    assert "run one version only" in said["reason"]


@pytest.mark.parametrize("kind", [b"order/", b"claim/", b"decision/"])
def test_of_a_huge_key_only_the_beginning_is_logged(
    flow: Flow, topic: Log, caplog: pytest.LogCaptureFixture, kind: bytes
) -> None:
    topic.entries += [*GOOD, (kind + b"\n" + bytes(2**20), b"{}")]
    ControlReader(flow).read_to_end()
    (warning,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert warning["key"].startswith(f"{kind.decode()}??") and len(warning["key"]) == SAID_MAX
    assert len(str(warning)) < 5_000


@pytest.mark.parametrize(
    "key", [b"order/", b"order/t", b"order/*/3", b"claim/", b"decision/", b"plan", b"what comes later"]
)
def test_a_tombstone_with_an_unknown_key_is_not_logged(
    flow: Flow, topic: Log, caplog: pytest.LogCaptureFixture, key: bytes
) -> None:
    topic.entries += [*GOOD, (key, None)]
    reader = ControlReader(flow)
    reader.read_to_end()
    assert (reader.plan, reader.orders) == (PLAN, {Scope("t"): Order(True)})
    assert not caplog.records


@pytest.mark.parametrize("value", [FOREIGN, b"not json", b"[]", b"null", b'{"generation":1}', b"\xff"])
def test_without_the_newest_plan_every_reading_fails(flow: Flow, topic: Log, value: bytes) -> None:
    """The plan before it is outdated, and without any plan the next one would be taken for the flow's first."""
    topic.entries += [*GOOD, (PLAN_KEY, value)]
    reader = ControlReader(flow, follow=True)
    for reading in (reader.read_to_end, reader.read_to_end, lambda: reader.poll(0)):
        with pytest.raises(FlowError) as raised:
            reading()
        said = str(raised.value)
        assert "primary->backup" in said and flow.control_topic in said and "another version" in said
        assert reader.plan is None
    assert reader.claims == {1: "task"} and Scope("t") in reader.orders
    topic.entries += plans(NEXT)
    reader.read_to_end()
    assert reader.plan == NEXT


@pytest.mark.parametrize("follow", [False, True])
def test_a_plan_that_contradicts_itself_is_logged_once_and_ignored(
    flow: Flow, topic: Log, caplog: pytest.LogCaptureFixture, follow: bool
) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow, follow)
    reader.read_to_end()
    topic.entries += plans(TWICE)
    for _ in range(2):
        reader.read_to_end()
        assert (reader.plan, reader.has_wrong_plan) == (PLAN, True)
    (said,) = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert said["key"] == "plan" and "in two slices" in said["reason"]
    topic.entries += plans(NEXT)
    reader.read_to_end()
    assert (reader.plan, reader.has_wrong_plan) == (NEXT, False)


def test_who_reads_for_the_first_time_finds_the_plan_before_a_wrong_one(flow: Flow, topic: Log) -> None:
    topic.entries += plans(NEXT, PLAN, TWICE)
    reader = ControlReader(flow)
    reader.read_to_end()
    assert (reader.plan, reader.has_wrong_plan) == (PLAN, True)
    topic.entries += plans(NEXT, TWICE)
    reader.read_to_end()
    assert (reader.plan, reader.has_wrong_plan) == (NEXT, True), "not the one that it knew before"


def test_a_plan_of_another_version_is_not_ignored_because_a_wrong_one_comes_after_it(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow)
    reader.read_to_end()
    topic.entries += [(b"plan", b"of another version"), *plans(TWICE)]
    with pytest.raises(ForeignPlan):
        reader.read_to_end()


def test_a_plan_that_contradicts_itself_stops_who_finds_none_before_it(flow: Flow, topic: Log) -> None:
    """Compaction may have removed it. The flow would begin anew without one."""
    topic.entries += plans(TWICE)
    reader = ControlReader(flow)
    for _ in range(2):
        with pytest.raises(ForeignPlan, match=r"no mirror wrote the plan on .*in two slices.*delete the topic"):
            reader.read_to_end()
        assert reader.plan is None and not reader.has_wrong_plan
    topic.entries += plans(NEXT)
    reader.read_to_end()
    assert reader.plan == NEXT


def test_polling_finds_a_plan_that_cannot_be_decoded(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow, follow=True)
    reader.read_to_end()
    topic.entries.append((PLAN_KEY, FOREIGN))
    with pytest.raises(FlowError):
        reader.poll(0)
    topic.entries += plans(NEXT)
    assert reader.poll(0) and reader.plan == NEXT


def test_of_many_plans_only_the_newest_is_decoded(flow: Flow, topic: Log) -> None:
    topic.entries += [*plans(PLAN), (PLAN_KEY, FOREIGN), *plans(NEXT)]
    reader = ControlReader(flow, follow=True)
    reader.read_to_end()
    assert reader.plan == NEXT
    assert not reader.poll(0) and reader.plan == NEXT


def test_a_long_topic_is_read_to_its_end_however_slow_it_is(flow: Flow, topic: Log) -> None:
    topic.entries += plans(*(replace(PLAN, generation=n) for n in range(1, 101)))
    topic.pace, topic.unready = 0.9 * READ_TIMEOUT, 3
    reader = ControlReader(flow)
    reader.read_to_end()
    assert reader.plan is not None and reader.plan.generation == 100


def test_reading_fails_when_the_cluster_stops_answering(flow: Flow, topic: Log) -> None:
    topic.entries += plans(PLAN, NEXT, NEXT)
    topic.held_back, topic.pace = 1, 1.0
    reader = ControlReader(flow)
    with pytest.raises(ClusterAway, match="backup does not answer"):
        reader.read_to_end()
    assert READ_TIMEOUT < topic.now < READ_TIMEOUT + 3
    assert reader.plan == NEXT, "the newest plan that was read"


def test_no_record_is_lost_while_the_topics_end_is_not_known(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    topic.unready = 2
    reader = ControlReader(flow)
    reader.read_to_end()
    assert reader.plan == PLAN and reader.claims == {1: "task"}


def test_nothing_is_fetched_between_two_readings(flow: Flow, topic: Log) -> None:
    """Each reading begins where the last one ended."""
    topic.entries += GOOD
    reader = ControlReader(flow)
    for _ in range(2):
        reader.read_to_end()
        assert reader.plan == PLAN and topic.at is None
    topic.entries += [(PLAN_KEY, FOREIGN), *plans(NEXT)]
    reader.read_to_end()
    assert reader.plan == NEXT and topic.at is None


def test_a_following_reader_keeps_fetching(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow, follow=True)
    reader.read_to_end()
    topic.entries += plans(NEXT)
    assert topic.at == len(GOOD) and reader.poll(0) and reader.plan == NEXT


def test_what_has_arrived_together_is_one_change(flow: Flow, topic: Log) -> None:
    """For each change a task goes through all of its partitions."""
    reader = ControlReader(flow, follow=True)
    orders = {Scope("t", number): PAUSED for number in range(1_000)}
    some = [replace(DECISION, partition=Partition("t", number)) for number in range(1_000)]
    topic.entries += [order(*each) for each in orders.items()] + [(each.key(), each.encode()) for each in some]
    topic.entries += [*plans(PLAN, NEXT), (Claim(1, "task").key(), Claim(1, "task").encode()), (b"alive", None)]
    assert reader.poll(0) and not reader.poll(0)
    assert (reader.orders, len(reader.decisions), reader.plan) == (orders, 1_000, NEXT)
    assert reader.claims == {1: "task"}


def test_a_stream_of_records_does_not_keep_a_poll_from_returning(flow: Flow, topic: Log) -> None:
    reader = ControlReader(flow, follow=True)
    topic.entries += [order(Scope("t", number), PAUSED) for number in range(10)]
    topic.pace = 0.4 * TOGETHER
    assert reader.poll(0) and len(reader.orders) == 4
    while reader.poll(0):
        pass
    assert len(reader.orders) == 10


PAUSED, COPIED = Order(True), Order(False)


def order(scope: Scope, said: Order | None) -> Entry:
    return scope.key(), None if said is None else said.encode()


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("longer", [False, True])
def test_a_recreated_topic_is_read_from_its_beginning(flow: Flow, topic: Log, follow: bool, longer: bool) -> None:
    """Its id shows that it is new: its end may be before or after the end of the old topic."""
    topic.entries += GOOD
    reader = ControlReader(flow, follow)
    reader.read_to_end()
    claims = [(Claim(1, f"task-{n}").key(), Claim(1, f"task-{n}").encode()) for n in range(9 if longer else 1)]
    topic.recreate(order(Scope("u"), PAUSED), *plans(NEXT), *claims)
    for _ in range(len(claims) + 4 if follow else 0):
        reader.poll(0)
    if not follow:
        reader.read_to_end()
    assert (reader.plan, reader.recreations, reader.awaits_plan) == (NEXT, 1, False)
    assert reader.orders == {Scope("u"): PAUSED} and not reader.decisions
    assert reader.claims == {1: claims[-1][1].decode().split('"')[3]}


def test_what_was_known_stays_in_force_until_there_is_a_plan_again(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow)
    reader.read_to_end()
    topic.recreate()
    for _ in range(2):
        reader.read_to_end()
        assert (reader.plan, reader.recreations, reader.awaits_plan) == (PLAN, 1, True)
        assert (reader.claims, reader.orders) == ({1: "task"}, {Scope("t"): PAUSED})
        assert reader.unwritten() == ({Scope("t"): PAUSED}, [DECISION])
    orders, decisions = reader.unwritten()
    topic.entries += [order(scope, said) for scope, said in orders.items()]
    topic.entries += [(decision.key(), decision.encode()) for decision in decisions] + plans(NEXT)
    reader.read_to_end()
    assert (reader.plan, reader.awaits_plan, reader.unwritten()) == (NEXT, False, ({}, []))
    assert (reader.orders, reader.decisions) == ({Scope("t"): PAUSED}, {DECISION.partition: DECISION})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {Scope("t"): PAUSED}),
        ([order(Scope("u"), PAUSED)], {Scope("t"): PAUSED, Scope("u"): PAUSED}),
        ([order(Scope("t"), None)], {}),
        ([order(Scope(), None)], {}),
        ([order(Scope(), PAUSED)], {Scope(): PAUSED}),
        ([order(Scope("t", 1), None)], {Scope("t"): PAUSED, Scope("t", 1): COPIED}),
    ],
)
def test_orders_given_between_recreation_and_plan_count(
    flow: Flow, topic: Log, given: list[Entry], expected: dict[Scope, Order]
) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow)
    reader.read_to_end()
    topic.recreate(*given)
    reader.read_to_end()
    assert [scope.key() for scope in reader.orders_since_recreation] == [key for key, _ in given]
    assert reader.orders == {Scope("t"): PAUSED}, "until the plan comes"
    orders, _ = reader.unwritten()
    topic.entries += [*(order(scope, said) for scope, said in orders.items()), *plans(NEXT)]
    reader.read_to_end()
    assert reader.orders == expected and not reader.orders_since_recreation


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("since", [[], [order(Scope("u"), PAUSED)], [order(Scope("t"), None)]])
def test_what_was_deleted_from_the_beginning_stays_in_force(
    flow: Flow, topic: Log, follow: bool, since: list[Entry]
) -> None:
    """Not by compaction, after which the topic begins where it did. It may still have the plan, but lack orders."""
    topic.entries += [*GOOD, *plans(NEXT)]
    reader = ControlReader(flow, follow)
    reader.read_to_end()
    assert not reader.awaits_plan
    topic.begin = len(topic.entries) - 1
    topic.entries += since
    reader.read_to_end()
    wanted = {Scope.decode(key): None if value is None else PAUSED for key, value in [(Scope("t").key(), b""), *since]}
    in_force = {scope: PAUSED for scope, given in wanted.items() if given}
    assert (reader.plan, reader.awaits_plan, reader.recreations) == (NEXT, True, 0)
    assert (reader.orders, reader.decisions) == (in_force, {DECISION.partition: DECISION})
    assert reader.unwritten() == (in_force, [DECISION])
    topic.entries += [*(order(*each) for each in in_force.items()), (DECISION.key(), DECISION.encode()), *plans(PLAN)]
    for each in (reader, ControlReader(flow)):
        each.read_to_end()
        assert (each.plan, each.awaits_plan, each.unwritten()) == (PLAN, False, ({}, []))
        assert (each.orders, each.decisions) == (in_force, {DECISION.partition: DECISION})


def test_a_recreated_topic_that_loses_records_gets_all_again(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow)
    reader.read_to_end()
    topic.recreate(order(Scope("u"), PAUSED))
    reader.read_to_end()
    topic.begin = 1
    reader.read_to_end()
    assert reader.unwritten() == ({Scope("t"): PAUSED, Scope("u"): PAUSED}, [DECISION])


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_a_topic_that_has_become_shorter_is_read_again(flow: Flow, topic: Log, follow: bool, reads: bool) -> None:
    """Its id is the same. What another service has written since stands where the lost records were."""
    topic.entries += [*GOOD, order(Scope("v"), PAUSED), *plans(NEXT)]
    reader = ControlReader(flow, follow)
    reader.read_to_end()
    topic.shorten(len(GOOD))
    theirs = replace(PLAN, service_id="them", generation=8)
    topic.entries += plans(theirs)
    for _ in range(len(topic.entries) + 3 if follow and not reads else 0):
        reader.poll(0)
    if reads or not follow:
        reader.read_to_end()
    assert (reader.plan, reader.recreations, reader.awaits_plan) == (theirs, 1, False)
    assert (reader.orders, reader.decisions) == ({Scope("t"): PAUSED}, {DECISION.partition: DECISION})


@pytest.mark.parametrize("follow", [False, True])
def test_what_an_emptied_topic_said_stays_in_force(flow: Flow, topic: Log, follow: bool) -> None:
    """As when its only replica has lost its disk."""
    topic.entries += GOOD
    reader = ControlReader(flow, follow)
    reader.read_to_end()
    topic.shorten(0)
    for _ in range(2):
        reader.read_to_end()
        assert (reader.plan, reader.recreations, reader.awaits_plan) == (PLAN, 1, True)
        assert reader.unwritten() == ({Scope("t"): PAUSED}, [DECISION])


@pytest.mark.parametrize("kind", ["orders", "decisions"])
def test_the_time_to_read_orders_grows_with_their_number_only(flow: Flow, topic: Log, kind: str) -> None:
    """Not with its square: somebody may have left 100,000 of them."""
    if kind == "orders":
        topic.entries += [order(Scope("t", number), PAUSED) for number in range(20_000)]
    else:
        some = [replace(DECISION, partition=Partition("t", number)) for number in range(20_000)]
        topic.entries += [(each.key(), each.encode()) for each in some]
    reader = ControlReader(flow)
    began = time.process_time()
    reader.read_to_end()
    assert len(getattr(reader, kind)) == 20_000
    assert time.process_time() - began < 3, "seconds; with a copy for each record it takes ten times as long"


@pytest.mark.parametrize("follow", [False, True])
def test_orders_that_somebody_holds_do_not_change(flow: Flow, topic: Log, follow: bool) -> None:
    """Other threads read them. Without a new order they stay the same object, which shows that nothing is new."""
    topic.entries += GOOD
    reader = ControlReader(flow, follow)
    reader.read_to_end()
    orders, decisions = reader.orders, reader.decisions
    topic.entries += plans(NEXT)
    reader.poll(0) if follow else reader.read_to_end()
    assert reader.plan == NEXT and reader.orders is orders and reader.decisions is decisions
    topic.entries.append(order(Scope("u"), PAUSED))
    reader.poll(0) if follow else reader.read_to_end()
    assert (orders, reader.orders) == ({Scope("t"): PAUSED}, {Scope("t"): PAUSED, Scope("u"): PAUSED})
    assert reader.decisions is decisions


def test_a_broker_that_still_reports_the_old_id_causes_no_new_reading(flow: Flow, topic: Log) -> None:
    topic.entries += GOOD
    reader = ControlReader(flow)
    reader.read_to_end()
    topic.recreate(*plans(NEXT))
    reader.read_to_end()
    newest = topic.topic_id
    for topic_id in ("first", newest, "first", newest):
        topic.topic_id = topic_id
        reader.read_to_end()
    assert (reader.plan, reader.recreations) == (NEXT, 1)
