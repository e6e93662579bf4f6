"""Bit rot on the source: neither what does not fit its checksum is copied nor what follows, before somebody decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.kafka import provenance
from tests.harness import configuration, damage, oracle, topics
from tests.harness.command import answer, decide
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, PASSED_OVER, Service
from tests.harness.together import together
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow

BATCH, BATCHES, BAD = 10, 5, 2  # records in each batch, batches of a topic, the one that is damaged
GOOD = range(BAD * BATCH)  # offsets before it
AFTER = range((BAD + 1) * BATCH, BATCHES * BATCH)
RANGE = f"offsets {GOOD.stop} to {AFTER.start - 1} can't be read as they were written"

# librdkafka reads on within a bad batch. Of text it makes a format that is not known, and goes far past the end; of
# ones an old format, and stays.
TAILS = {"text": b"." * 40, "ones": b"\x01" * 40}


class Flows:
    """One service with a flow between the shared clusters for each policy, and one that looks at no checksum."""

    def __init__(self, source: LocalCluster, target: LocalCluster, data_path: str, directory: Path) -> None:
        self.source = source
        names = ("fail", "skip", "unchecked")
        self.fail, self.skip, self.unchecked = (
            Pair(source.bootstrap, target.bootstrap, f"rot{name}", f"rot{name}-").by(data_path) for name in names
        )
        self.marked = Pair(source.bootstrap, target.bootstrap, "rotmarked", "rotmarked-", "{topic}").by(data_path)
        self.all = [self.fail, self.skip, self.unchecked, self.marked]
        settings = configuration.together(
            self.fail.settings(),
            self.skip.settings({"on_data_loss": "skip"}),
            self.unchecked.settings(),
            self.marked.settings({"replication_policy": "identity", "active_active": True}),
        )
        settings["clusters"][self.unchecked.alias]["consumer"] = {"check.crcs": False}
        self.service = Service(settings, directory)

    def begin(self, pair: Pair, tail: str) -> str:
        """A topic with a damaged batch in the middle of partition 0, and a good partition beside it."""
        topic = pair.topic(tail, 2)
        with self.service.workers_stopped():
            for first in range(0, BATCHES * BATCH, BATCH):
                made = (Made(b"key", written(n) + TAILS[tail]) for n in range(first, first + BATCH))
                pair.produce(topic, *made, linger_ms=10_000)  # one batch, however busy the machine is
            self.flip(topic)
            pair.produce(topic, Made(b"key", written(0)), partition=1)
        return topic

    def flip(self, topic: str) -> None:
        """Damage the batch, or mend it."""
        damage.flip(self.source, topic, BAD, written(BAD * BATCH + 3))

    def await_copied(self, pair: Pair, topic: str, *offsets: int, partition: int = 0) -> None:
        """Wait until these are copied, and nothing else."""

        def copied() -> bool:
            records = pair.copied(topic).get(partition, ())
            return [(record.value or b"")[:12] for record in records] == [written(offset) for offset in offsets]

        self.service.wait_for("what is good", copied)

    def decide(self, pair: Pair, topic: str) -> None:
        """`mirror resume --skip-lost`."""
        decide(self.service, "--flow", pair.flow, "--topic", topic, "--partition", 0, "--skip-lost")

    def await_counted(self, topic: str) -> None:
        """Wait until the batch, and nothing else, is counted as passed over."""
        lost = "mirror_lost_offsets_total"
        self.service.wait_for("counted", lambda: self.service.metric(lost, topic=topic, reason="corrupt") == BATCH)


def written(number: int) -> bytes:
    """The beginning of the value of the record at an offset."""
    return b"%012d" % number


def _is_copied(pair: Pair, topic: str) -> bool:
    return oracle.count(pair.copied(topic)) > 0


@pytest.fixture(scope="module")
def flows(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Flows]:
    running = Flows(source_cluster, target_cluster, data_path, tmp_path_factory.mktemp("rot"))
    with running.service as service:
        witnesses = [(pair, pair.topic("first")) for pair in running.all]
        for pair, topic in witnesses:
            pair.produce(topic, Made(b"key", b"first"))
            service.wait_for("it is copied", partial(_is_copied, pair, topic))
        yield running
        running.skip.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def test_damaged_batches(flows: Flows) -> None:
    """The flow that stops does one after the other: it counts what is blocked."""

    def stops() -> None:
        for tail in TAILS:
            a_damaged_batch_stops_its_partition_alone(flows, tail)
        the_first_batch_ever(flows, flows.fail, "failed CRC32C check")

    together(
        stops,
        *(partial(a_damaged_batch_is_passed_over, flows, tail) for tail in TAILS),
        partial(the_first_batch_ever, flows, flows.unchecked, "Decompression"),
        partial(a_damaged_batch_after_a_record_that_is_left_out, flows),
    )


def a_damaged_batch_stops_its_partition_alone(flows: Flows, tail: str) -> None:
    pair, service = flows.fail, flows.service
    topic = flows.begin(pair, tail)
    reason = service.wait_for_event(BLOCKED, topic=topic)["reason"]
    assert RANGE in reason and "mirror resume --skip-lost" in reason and "failed CRC32C check" in reason
    flows.await_copied(pair, topic, 0, partition=1)
    flows.await_copied(pair, topic, *GOOD)
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == GOOD.stop
    service.wait_for("shown", lambda: service.metric("mirror_partitions", source=pair.alias, state="blocked") == 1)
    flow = next(flow for flow in answer("status", "-c", service.file, code=1)["flows"] if flow["flow"] == pair.flow)
    (blocked,) = [partition for partition in flow["partitions"] if partition["state"] == "blocked"]
    assert (blocked["topic"], blocked["partition"], blocked["position"]) == (topic, 0, GOOD.stop) and RANGE in blocked[
        "reason"
    ]
    assert [event["reason"] for event in service.find(BLOCKED, topic=topic)] == [reason], "said more than once"
    if tail == "text":
        flows.flip(topic)  # mended
        flows.await_copied(pair, topic, *range(BATCHES * BATCH))
    else:
        flows.decide(pair, topic)
        flows.await_copied(pair, topic, *GOOD, *AFTER)
        flows.await_counted(topic)
    service.wait_for("it goes on", lambda: not service.metric("mirror_partitions", source=pair.alias, state="blocked"))


def a_damaged_batch_is_passed_over(flows: Flows, tail: str) -> None:
    pair = flows.skip
    topic = flows.begin(pair, tail)
    assert RANGE in flows.service.wait_for_event(PASSED_OVER, topic=topic)["reason"]
    flows.await_copied(pair, topic, *GOOD, *AFTER)
    flows.await_counted(topic)


def a_damaged_batch_after_a_record_that_is_left_out(flows: Flows) -> None:
    """With active_active the position is before that record, which can be read, and not at the batch."""
    pair = flows.marked
    topic = pair.topic("left-out")
    there = str(topics.admin(pair.target).list_topics(timeout=PATIENCE).cluster_id)
    came_from_there: list[tuple[str, bytes | None]] = [(provenance.NAME, provenance.encode(topic, 0, [there]))]
    with flows.service.workers_stopped():
        for number in range(4):
            pair.produce(topic, Made(b"key", written(number), came_from_there if number == 1 else []))
        damage.flip(flows.source, topic, 2, written(2))
    reason = flows.service.wait_for_event(BLOCKED, topic=topic)["reason"]
    assert "offsets 2 to 2 can't be read" in reason
    flows.decide(pair, topic)
    flows.await_copied(pair, topic, 0, 3)


def the_first_batch_ever(flows: Flows, pair: Pair, why: str) -> None:
    """There is no position yet: it is committed before it, so that a later start finds the same."""
    topic = pair.topic("first-ever")
    with flows.service.workers_stopped():
        pair.produce(topic, Made(b"key", written(0) + b"x" * 100), compression_type="gzip")
        pair.produce(topic, Made(b"key", written(1)))
        damage.flip(flows.source, topic, 0, bytes([0x1F, 0x8B]))  # with which what gzip makes begins
    reason = flows.service.wait_for_event(BLOCKED, topic=topic)["reason"]
    assert "offsets 0 to 0 can't be read" in reason and why in reason
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == 0
    flows.decide(pair, topic)
    flows.await_copied(pair, topic, 1)
