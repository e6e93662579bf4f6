"""`mirror adopt`: a real MirrorMaker 2 copies, stops or is killed, and mirror copies the next record first.

One MirrorMaker has four flows: with and without exactly-once, each with both policies. The target has two aliases for
it, because exactly-once is a setting of the target. One of the flows goes on without exactly-once in mirror, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mirror.commands.adopt import stopping
from mirror.commands.adopt.command import Options, adopt
from mirror.commands.adopt.committing import MOVED
from mirror.commands.convert.command import convert, save
from mirror.commands.translate import translate
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.errors import MirrorError
from mirror.model import Partition
from mirror.target.offset_syncs import OffsetSync
from tests.harness import mirror_maker, oracle, topics
from tests.harness.command import answer, decide
from tests.harness.load import Load, mixed
from tests.harness.mirror_maker import MirrorMaker
from tests.harness.moving import Moving, World
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, Service
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

CONNECTOR = "MirrorSourceConnector"
RECORDS = 1_300  # of each partition: more than are compared


def abort(pair: Pair, topic: str) -> None:
    """Records of a transaction that is aborted: MirrorMaker without exactly-once copies them."""
    producer = Producer({"bootstrap.servers": pair.source, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    for number in range(20):
        producer.produce(topic, b"aborted %d" % number, None, number % 2)
    producer.flush(PATIENCE)
    producer.abort_transaction(PATIENCE)


@pytest.fixture(scope="module")
def world(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    yield World("adopt", source_cluster.bootstrap, target_cluster.bootstrap, tmp_path_factory.mktemp("adopt"))


def test_mirror_goes_on_where_mirrormaker_has_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes twice, and nothing is missing.

    One test, because MirrorMaker takes long to start: it runs with all flows and stops in order; then with two of them,
    and is killed.
    """
    eos, eos_identity, alo, alo_identity = world.all
    for each in world.all:
        each.produce(0, RECORDS)
    abort(alo.pair, alo.topic)
    spoiled = alo.pair.topic("spoiled")
    alo.pair.produce(spoiled, *map(mixed, range(5)))
    with world.mirror_maker(*world.all) as first:
        for each in world.all:
            each.await_copied(2 * RECORDS + (20 if each is alo else 0))
        look_while_it_runs(eos, monkeypatch)
        first.stop()
    for each in world.all:
        its_offset_syncs_are_of_the_same_records(each)
        each.produce(RECORDS, 300)
    move_with_exactly_once(eos)
    move_without(alo, spoiled)
    with world.mirror_maker(eos_identity, alo_identity) as second:
        alo_identity.await_copied(2 * RECORDS + 600)
        with Load(eos_identity.pair.source, {eos_identity.topic: 2}, make=mixed, first=10**6, rate=500):
            eos_identity.await_copied(2 * RECORDS + 700)
            second.kill()
    move_after_kill(eos_identity, alo_identity)
    go_on(world, spoiled)


def its_offset_syncs_are_of_the_same_records(flow: Moving) -> None:
    """mirror reads what MirrorMaker has written, on the target or on the source."""
    at, alias = (flow.pair.target, flow.pair.alias) if flow.identity else (flow.pair.source, flow.to)
    here = {(n, r.offset): r.content for n, some in flow.source("read_uncommitted").items() for r in some}
    there = {(n, r.offset): r.content for n, some in flow.copy().items() for r in some}
    (records,) = oracle.read(at, f"mm2-offset-syncs.{alias}.internal").values()
    found = [OffsetSync.decode(each.key or b"", each.value or b"") for each in records]
    ours = [each for each in found if each.topic == flow.topic]
    assert {each.partition for each in ours} == {0, 1}
    for each in ours:
        assert here[each.partition, each.upstream] == there[each.partition, each.downstream], each


def look_while_it_runs(flow: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run says what would be; without it MirrorMaker is noticed."""
    found = answer("adopt", "-c", flow.file, "--dry-run")["partitions"]
    assert {each["outcome"] for each in found} == {"would be adopted"}, found
    assert {each["partition"]: each["position"] for each in found} == flow.next_offsets()
    with monkeypatch.context() as patience, pytest.raises(MirrorError, match="MirrorMaker still runs"):
        patience.setattr(stopping, "MEMBERS_MORE", 0.0)
        flow.adopt(quiet=0.5)
    assert flow.position(0) is None
    assert not topics.partitions(flow.pair.target, f"mirror-control.{flow.pair.alias}.internal")


def move_with_exactly_once(flow: Moving) -> None:
    """MirrorMaker has recorded all that it has copied, and its tasks are fenced."""
    expected = flow.next_offsets()
    said = flow.adopt(named=True)
    assert said.well and said.fenced == [f"{flow.pair.alias}-mm2-MirrorSourceConnector-{n}" for n in (0, 1)]
    for number, each in flow.ours(said).items():
        assert (each.outcome, each.compared) == ("adopted", 1_000)
        assert each.position == each.recorded == expected[number]
    assert {number: flow.position(number) for number in expected} == expected
    assert {each.outcome for each in flow.adopt().results} == {"left alone"}


def move_without(flow: Moving, spoiled: str) -> None:
    """MirrorMaker has recorded all that it has copied. Somebody else writes to the copy of the `spoiled` topic."""
    expected = flow.next_offsets()
    with Load(flow.pair.target, {flow.pair.remote(spoiled): 1}, rate=50) as strange:
        strange.wait_for(1)
        said = flow.adopt()
    assert not said.well and not said.fenced
    for number, each in flow.ours(said).items():
        assert (each.outcome, each.compared) == ("adopted", 1_000)
        assert each.position == each.recorded == expected[number] == flow.position(number)
    assert [each.reason for each in said.results if each.partition.topic == spoiled] == [MOVED]
    again = answer("adopt", "-c", flow.file, "--quiet", 0, code=1)
    assert (again["flow"], again["exactly_once"], again["fenced"]) == (flow.pair.flow, False, [])
    assert again["counts"] == {"left_alone": 2, "refused": 1}
    refused = again["partitions"][-1]
    assert (refused["topic"], refused["position"]) == (spoiled, None)
    assert f"--topic {spoiled} --partition 0 --at OFFSET" in refused["reason"]


def move_after_kill(exact: Moving, recorded_later: Moving) -> None:
    """MirrorMaker was killed: with exactly-once within a transaction, without it before it has recorded anything."""
    recorded_later.produce(RECORDS + 300, 300)
    said = exact.adopt(quiet=4)  # a killed worker's session ends only after six seconds
    expected = exact.next_offsets()
    for number, each in exact.ours(said).items():
        assert (each.outcome, each.recorded, each.position) == ("adopted", *[expected[number]] * 2)
    assert not oracle.hanging(exact.pair.target, exact.remote())
    said, expected = recorded_later.adopt(), recorded_later.next_offsets()
    for number, each in recorded_later.ours(said).items():
        assert (each.outcome, each.position, each.compared) == ("adopted", expected[number], 1_000)
        assert each.recorded is not None and each.recorded < expected[number]


def go_on(world: World, spoiled: str) -> None:
    """Mirror copies the rest, and blocks what was refused until somebody decides."""
    alo = world.all[2]
    with world.service() as service:
        for each in world.all:
            isolation = "read_uncommitted" if each is alo else "read_committed"
            each.await_copied(oracle.count(each.source(isolation)))
            oracle.compare(each.source(isolation), each.copy())
        with pytest.raises(MirrorError, match="stop mirror"):
            alo.adopt()
        translate_what_each_has_copied(world.all[0])
        service.wait_for_event(BLOCKED, topic=spoiled)
        (said,) = decide(service, "--flow", alo.pair.flow, "--topic", spoiled, "--partition", 0, "--at", 5)["decided"]
        assert "continues at offset 5" in said
        alo.pair.produce(spoiled, mixed(5))
        (last,) = oracle.read(alo.pair.source, spoiled)[0][5:]
        until("it goes on", lambda: alo.pair.copied(spoiled)[0][-1].content == last.content)
        assert service.terminate() == 0, service.tail()
        assert {event["topic"] for event in service.find(BLOCKED)} == {spoiled}


def translate_what_each_has_copied(moving: Moving) -> None:
    """The offset map knows mirror's records, and says of MirrorMaker's that they are before it."""
    here, there = moving.source()[0], moving.copy()[0]
    flow, partition = load(moving.file).flows[0], Partition(moving.topic, 0)
    (ours,) = translate(flow, {partition: here[-1].offset})
    assert ours.translated == there[-1].offset
    (theirs,) = translate(flow, {partition: here[10].offset})
    assert theirs.translated is None and theirs.reason.startswith("before the map")


def test_a_converted_file_goes_on_where_mirrormaker_was_frozen(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """From mm2.properties to a running mirror: nothing but `convert` writes the flow's configuration.

    Aliases, policy, filters and exactly-once have to be MirrorMaker's, for they name the topics and the groups. Its
    worker wakes while mirror runs. With exactly-once its tasks are fenced, so it copies nothing any more.
    """
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, "conv.eu", "conv-", target_alias="conv_us")
    orders, left_out = pair.topic("orders.v1", 2), pair.topic("private")
    flow = {
        "topics": "conv-.*",
        "topics.exclude": ".*private",
        "refresh.topics.interval.seconds": 1,
        "replication.policy.separator": "_",
    }
    properties = mirror_maker.flows(
        {pair.alias: pair.source, pair.target_alias: pair.target}, {(pair.alias, pair.target_alias): flow}
    )
    properties |= {
        f"{pair.target_alias}.exactly.once.source.support": "enabled",
        f"{pair.alias}.consumer.isolation.level": "read_committed",
        f"{pair.target_alias}.producer.compression.type": "lz4",
        f"{pair.target_alias}.session.timeout.ms": 6_000,
    }
    remote = f"{pair.alias}_{orders}"

    def produce(first: int) -> None:
        for number in (0, 1):
            pair.produce(orders, *[mixed(2 * n + number) for n in range(first, first + 300)], partition=number)

    def is_same() -> bool:
        here = oracle.read(pair.source, orders)
        return oracle.count(oracle.read(pair.target, remote)) >= oracle.count(here)

    produce(0)
    pair.produce(left_out, mixed(0))
    with MirrorMaker(properties, tmp_path) as before:
        until("MirrorMaker's copy exists", lambda: topics.partitions(pair.target, remote) == 2)
        until("MirrorMaker has copied", is_same)
        before.freeze()
        produce(300)
        converted = tmp_path / "converted.yaml"
        save(convert(before.file), converted, force=False)
        # A frozen worker's session lasts six seconds.
        options = Options(CONNECTOR, None, None, None, RECORDS, 4.0, False)
        adopted = adopt(load(converted).flows[0], options, StringIO())
        assert [(each.outcome, each.compared) for each in adopted.results] == [("adopted", 300)] * 2
        settings = {key: each for key, each in pair.settings().items() if key in ("spark", "http", "log")}
        with Service(settings, tmp_path, arguments=("-c", str(converted))) as after:
            after.wait_for("mirror has copied the rest", is_same)
            before.wake()
            produce(600)
            for task in (0, 1):
                fenced = f"{CONNECTOR}-{task}}} failed to send record"
                until(f"task {task} is fenced", lambda fenced=fenced: fenced in before.tail(100_000))  # type: ignore[misc]
            after.wait_for("mirror has copied what came meanwhile", is_same)
            assert after.terminate() == 0, after.tail()
            assert not after.find(BLOCKED)
    oracle.compare(oracle.read(pair.source, orders), oracle.read(pair.target, remote))
    assert not topics.partitions(pair.target, f"{pair.alias}_{left_out}")
