"""A record with a header name that is not UTF-8 can't be read whole: it is told, and the flow's policy applies.

The client library gives headers with a hole in place of the name, and a process that touches the hole ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness import configuration, load, oracle, raw_headers, topics
from tests.harness.command import answer, decide
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, REFUSED, Service
from tests.harness.together import together

pytestmark = pytest.mark.slow

FLOWS: dict[str, dict[str, Any]] = {
    "fail": {"on_poison_record": "fail"},
    "skip": {"on_poison_record": "skip"},
    "plain": {"on_poison_record": "skip", "exactly_once": False},
    "letter": {"on_poison_record": "dead_letter"},
}
NAMES = (b"good", b"\xff\xfe", b"good too")
KEY, VALUE = b"raw key", b"raw value"
REASON = f"({len(VALUE)} bytes): a header's name is not UTF-8"
RETRIES = 3  # of the same records in memory
LONG_AGO = 1_700_000_000_000  # ms since the Unix epoch


class Flows:
    """One service with a flow between the shared clusters for each policy."""

    def __init__(self, source: str, target: str, directory: Path) -> None:
        self.all = {name: Pair(source, target, f"raw{name}", f"raw{name}-") for name in FLOWS}
        settings = configuration.together(*(pair.settings(FLOWS[name]) for name, pair in self.all.items()))
        self.service = Service(settings, directory)

    def begin(self, pair: Pair) -> str:
        """A topic with raw records at offsets 150, in the middle of a batch, and 201; and a witness beside it."""
        topic = pair.topic("topic", 2)
        produce(pair, topic, 0, 100)
        pair.await_same(topic)
        with self.service.workers_stopped():
            produce(pair, topic, 100, 50)
            produce_raw(pair.source, topic)
            produce(pair, topic, 150, 50)
            produce_raw(pair.source, topic)
            produce(pair, topic, 0, 10, partition=1)
        return topic

    def await_copied(self, pair: Pair, topic: str, count: int, partition: int = 0) -> None:
        """Wait until so many numbers are copied, from 0 on, with their headers and nothing else."""
        wanted = [(b"%d" % number, (("number", b"%d" % number),)) for number in range(count)]

        def copied() -> bool:
            return [(record.value, record.headers) for record in pair.copied(topic)[partition]] == wanted

        self.service.wait_for(f"{count} numbers", copied)


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flows]:
    flows = Flows(source_cluster.bootstrap, target_cluster.bootstrap, tmp_path_factory.mktemp("raw"))
    with flows.service as service:
        for pair in flows.all.values():
            pair.await_same(witness(pair))
        yield flows
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


@pytest.fixture
def flows(running: Flows) -> Iterator[Flows]:
    """No worker may end meanwhile."""
    workers = running.service.worker_pids()
    yield running
    assert running.service.worker_pids() == workers


def witness(pair: Pair) -> str:
    topic = pair.topic("witness")
    produce(pair, topic, 0, 1)
    return topic


def produce(pair: Pair, topic: str, first: int, count: int, partition: int = 0) -> None:
    numbers = [b"%d" % number for number in range(first, first + count)]
    pair.produce(topic, *(Made(None, number, [("number", number)]) for number in numbers), partition=partition)


def produce_raw(bootstrap: str, topic: str) -> None:
    raw_headers.produce(bootstrap, topic, NAMES, KEY, VALUE)


def test_a_name_that_is_not_utf_8(flows: Flows, pair: Pair, tmp_path: Path) -> None:
    together(
        partial(it_stops_its_partition_alone, flows),
        *(partial(it_is_passed_over, flows, name) for name in ("skip", "plain")),
        partial(it_becomes_a_dead_letter_without_headers, flows),
        partial(verify_compares_the_names_of_what_somebody_else_has_copied, pair, tmp_path),
    )


def it_stops_its_partition_alone(flows: Flows) -> None:
    pair, service = flows.all["fail"], flows.service
    topic = flows.begin(pair)
    reason = service.wait_for_event(BLOCKED, topic=topic)["reason"]
    assert f"the record at offset 150 {REASON}" in reason
    flows.await_copied(pair, topic, 10, partition=1)
    service.wait_for("retries", lambda: service.metric("mirror_retries_total", topic=topic) >= RETRIES)
    assert [event["reason"] for event in service.find(BLOCKED, topic=topic)] == [reason]
    flows.await_copied(pair, topic, 150)
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == 150

    decide(service, "--flow", pair.flow, "--topic", topic, "--partition", 0, "--skip-lost")
    flows.await_copied(pair, topic, 200)
    service.wait_for("the next one", lambda: "offset 201 " in service.find(BLOCKED, topic=topic)[-1]["reason"])


def it_is_passed_over(flows: Flows, name: str) -> None:
    pair, service = flows.all[name], flows.service
    topic = flows.begin(pair)
    flows.await_copied(pair, topic, 200)
    service.wait_for("both told", lambda: len(service.find(REFUSED, topic=topic)) == 2)
    produce_raw(pair.source, topic)
    service.wait_for("alone in its batch", lambda: len(service.find(REFUSED, topic=topic)) == 3)
    produce(pair, topic, 200, 1)
    flows.await_copied(pair, topic, 201)
    for offset, event in zip((150, 201, 202), service.find(REFUSED, topic=topic), strict=True):
        assert f"the record at offset {offset} {REASON}" in event["reason"]
    lost = "mirror_lost_offsets_total"
    service.wait_for("counted", lambda: service.metric(lost, topic=topic, reason="refused") == 3)
    command = ("verify", "-c", service.file, "--flow", pair.flow, "--topic", topic)
    (found,) = answer(*command, code=1)["flows"]
    differences = [(d["kind"], d["upstream"]) for each in found["partitions"] for d in each["differences"]]
    assert (found["compared"], differences) == (211, [("lost", 150), ("lost", 201), ("lost", 202)])


def it_becomes_a_dead_letter_without_headers(flows: Flows) -> None:
    pair = flows.all["letter"]
    topic = flows.begin(pair)
    flows.await_copied(pair, topic, 200)
    name = f"mirror-dead-letters.{pair.alias}.internal"
    flows.service.wait_for("both", lambda: len(oracle.read(pair.target, name)[0]) == 2)
    for letter, offset in zip(oracle.read(pair.target, name)[0], (b"150", b"201"), strict=True):
        assert (letter.key, letter.value) == (KEY, VALUE)
        told = {key.removeprefix("mirror.dead-letter."): value for key, value in letter.headers}
        assert told.keys() == {"reason", "topic", "partition", "offset", "timestamp"}
        assert (told["topic"], told["partition"], told["offset"]) == (topic.encode(), b"0", offset)
        assert b"a header's name is not UTF-8" in (told["reason"] or b"")


def verify_compares_the_names_of_what_somebody_else_has_copied(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("both", retention_ms=-1)
    remote = topics.create(pair.target, pair.remote(topic), retention_ms=-1)
    for bootstrap, name, last in ((pair.source, topic, b"\xff\xfe"), (pair.target, remote, b"\xff\xfd")):
        records = [Made(None, b"%d" % number) for number in range(100)]
        load.produce(bootstrap, name, records[:50], timestamp=LONG_AGO)
        raw_headers.produce(bootstrap, name, NAMES, KEY, VALUE, timestamp=LONG_AGO)
        load.produce(bootstrap, name, records[50:], timestamp=LONG_AGO)
        raw_headers.produce(bootstrap, name, [last], KEY, VALUE, timestamp=LONG_AGO)
    topics.commit(pair.target, pair.group, remote, {0: 102})
    (found,) = answer("verify", "-c", pair.service(tmp_path).file, "--topic", topic, code=1)["flows"]
    (difference,) = found["partitions"][0]["differences"]
    assert found["compared"] == 101
    assert (difference["kind"], difference["upstream"], difference["downstream"]) == ("altered", 101, 101)
