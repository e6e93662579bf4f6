"""A transform drops a third of the records and changes the others, exactly once, whatever happens meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.groups.translator import Translator
from mirror.model import Partition
from tests.checker.history import Record
from tests.harness import oracle, topics
from tests.harness.command import answer, decide, mirror
from tests.harness.follower import Follower
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, REFUSED, Service
from tests.harness.together import together
from tests.harness.waiting import until

pytestmark = pytest.mark.slow

SHOP = "shop_transforms"
CODE = Path(__file__).parents[1] / "transforms"
DROPPED, LOST = "mirror_dropped_records_total", "mirror_lost_offsets_total"
RATE = 200  # records per second
BAD = b"bad"  # the value for which the transform fails


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pair, Service]]:
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, "shop", "shop-")
    own = {
        pair.prefix + "plain": {"transform": "none"},
        pair.prefix + "slow": {"transform": f"{SHOP}.slow"},
        pair.prefix + "busy": {"transform": f"{SHOP}.busy"},
        pair.prefix + "beside": {"transform": "none"},
        pair.prefix + "different": {"transform": f"{SHOP}.different"},
        pair.prefix + "skip": {"on_poison_record": "skip"},
        pair.prefix + "letter": {"on_poison_record": "dead_letter"},
    }
    flow = {
        "transform": f"{SHOP}.thirds",
        "topic_settings": own,
        "batch_max_records": 300,
        "groups": {"sync": True, "include": [f"{pair.prefix}.*"], "interval": "1s"},
    }
    with pytest.MonkeyPatch.context() as patched:
        # For the commands, too.
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")])))
        with pair.service(tmp_path_factory.mktemp("shop"), flow) as service:
            begin_to_hang(pair, service)
            yield pair, service
            assert service.terminate() == 0, service.tail()
            assert not service.noise, service.tail()


def made(record: Record) -> Record | None:
    """What the transform has to make of a record, said by the judge."""
    if record.value == BAD or record.offset % 3 == 1:
        return None
    return record._replace(value=b"<" + (record.value or b"") + b">", headers=(*record.headers, ("by", b"thirds")))


def wanted(pair: Pair, topic: str) -> oracle.Records:
    """What has to be on the target."""
    here = oracle.read(pair.source, topic)
    return {number: [each for each in map(made, records) if each] for number, records in here.items()}


def await_made(pair: Pair, topic: str) -> oracle.Records:
    """Wait until the target has what it has to have, and compare; returns it, with the source's offsets."""
    expected = wanted(pair, topic)
    until(f"{topic} is copied", lambda: oracle.count(pair.copied(topic)) >= oracle.count(expected))
    oracle.compare(expected, pair.copied(topic))
    return expected


def numbers(first: int, count: int) -> list[Made]:
    return [Made(b"k%d" % n if n % 4 else None, b"%d" % n if n % 5 else None) for n in range(first, first + count)]


def test_a_third_is_dropped_while_workers_are_killed(running: tuple[Pair, Service]) -> None:
    pair, service = running
    topic = pair.topic("big", 2)
    for at in range(0, 6_000, 1_500):
        for partition in (0, 1):
            pair.produce(topic, *numbers(at, 1_500), partition=partition)
        if at in (0, 3_000):
            service.wait_for("something is copied", lambda: oracle.count(pair.copied(topic)) > 0)
            service.kill_workers()
    expected = await_made(pair, topic)
    oracle.assert_positions(pair.source, pair.target, topic, pair.remote(topic), pair.group)
    assert not oracle.hanging(pair.target, pair.remote(topic))
    each_offset_is_translated(pair, service, topic, expected[0])
    groups_go_on_with_the_next_record(pair, service, topic, expected[0])
    answered = answer("verify", "-c", service.file, "--topic", topic)
    assert answered["equal"] and answered["flows"][0]["compared"] == oracle.count(expected)


def each_offset_is_translated(pair: Pair, service: Service, topic: str, expected: list[Record]) -> None:
    """Check that each offset is translated to the place of the next copied record, from the first offset to the end."""
    there = [record.offset for record in pair.copied(topic)[0]]
    pairs = list(zip([record.offset for record in expected], there, strict=True))
    partition = Partition(topic, 0)
    with closing(Translator(load(service.file).flows[0])) as translator:
        translator.refresh([partition])
        step = max(1, len(pairs) // 30)
        for (up, down), (_, after) in list(pairwise(pairs))[::step]:
            assert translator.to_downstream(partition, up).translated == down
            assert translator.to_upstream(partition, down).translated == up
            assert translator.to_downstream(partition, up + 1).translated == after
        end = translator.end(partition)
        assert end.translated is not None and end.translated > there[-1]


def groups_go_on_with_the_next_record(pair: Pair, service: Service, topic: str, expected: list[Record]) -> None:
    """A group that would read a dropped record next begins at the next one that was copied."""
    there = {record.offset: at.offset for record, at in zip(expected, pair.copied(topic)[0], strict=True)}
    for number, offset in enumerate((0, 1, 3_001, 5_998)):
        topics.commit(pair.source, f"{pair.prefix}{number}", topic, {0: offset})
        down = there[min(up for up in there if up >= offset)]
        here = partial(stands, pair, f"{pair.prefix}{number}", topic, down)
        service.wait_for(f"the group at {offset} is synced", here)


def stands(pair: Pair, group: str, topic: str, offset: int) -> bool:
    return oracle.committed_position(pair.target, group, pair.remote(topic), 0) == offset


def begin_to_hang(pair: Pair, service: Service) -> None:
    """It takes half a minute until that is told: the tests of other topics come meanwhile."""
    topic = pair.topic("slow")
    pair.produce(topic, Made(None, b"x"))
    service.wait_for("the first one is copied", lambda: oracle.count(pair.copied(topic)) == 1)
    pair.produce(topic, Made(None, b"hangs"), Made(None, b"y"))


def test_a_failure_under_each_policy(running: tuple[Pair, Service]) -> None:
    together(
        partial(a_failure_stops_the_partition, *running),
        partial(a_failure_is_skipped, *running),
        partial(a_failure_makes_a_dead_letter, *running),
        partial(everything_is_dropped, *running),
        partial(one_that_is_not_comparable, *running),
    )


def produce_bad(pair: Pair, topic: str) -> None:
    pair.produce(topic, *numbers(0, 5), Made(b"key", BAD), *numbers(6, 100))


def a_failure_stops_the_partition(pair: Pair, service: Service) -> None:
    topic = pair.topic("fail")
    produce_bad(pair, topic)
    event = service.wait_for_event(BLOCKED, topic=topic)
    assert (
        "the transform fails for the record at offset 5 (3 bytes): the transform shop_transforms.thirds raised"
        in (event["reason"])
    )
    assert [record.offset for record in wanted(pair, topic)[0] if record.offset < 5] == [0, 2, 3]
    service.wait_for("what is before it", lambda: len(pair.copied(topic)[0]) == 3)
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == 5
    decide(service, "--topic", topic, "--partition", 0, "--skip-lost")
    await_made(pair, topic)
    service.wait_for("counted", lambda: service.metric(LOST, topic=topic, reason="refused") == 1)


def a_failure_is_skipped(pair: Pair, service: Service) -> None:
    topic = pair.topic("skip")
    produce_bad(pair, topic)
    await_made(pair, topic)
    assert "at offset 5" in service.wait_for_event(REFUSED, topic=topic)["reason"]
    service.wait_for("counted", lambda: service.metric(LOST, topic=topic, reason="refused") == 1)
    dropped = sum(number % 3 == 1 for number in range(106))
    service.wait_for("drops counted", lambda: service.metric(DROPPED, topic=topic) == dropped)


def a_failure_makes_a_dead_letter(pair: Pair, service: Service) -> None:
    topic = pair.topic("letter")
    produce_bad(pair, topic)
    await_made(pair, topic)
    service.wait_for("counted", lambda: service.metric(LOST, topic=topic, reason="dead_letter") == 1)
    (letters,) = oracle.read(pair.target, f"mirror-dead-letters.{pair.alias}.internal").values()
    (letter,) = [each for each in letters if ("mirror.dead-letter.topic", topic.encode()) in each.headers]
    assert (letter.key, letter.value) == (b"key", BAD), "as it was on the source"
    assert b"raised ValueError" in (dict(letter.headers)["mirror.dead-letter.reason"] or b"")


def everything_is_dropped(pair: Pair, service: Service) -> None:
    """The position moves all the same."""
    topic = pair.topic("dropped")
    pair.produce(topic, Made(None, b"kept"))
    await_made(pair, topic)
    pair.produce(topic, Made(None, b"dropped"))
    position = partial(oracle.committed_position, pair.target, pair.group, pair.remote(topic), 0)
    service.wait_for("the position moves", lambda: position() == 2)
    assert len(pair.copied(topic)[0]) == 1


def one_that_is_not_comparable(pair: Pair, service: Service) -> None:
    topic = pair.topic("different")
    pair.produce(topic, Made(None, b"x"))
    service.wait_for("copied", lambda: oracle.count(pair.copied(topic)) == 1)
    other = pair.topic("comparable")
    pair.produce(other, Made(None, b"x"))
    service.wait_for("copied", lambda: oracle.count(pair.copied(other)) == 1)
    ended = mirror("verify", "-c", service.file, "--topic", topic, "--topic", other)
    assert ended.returncode == 1 and f"{topic}-0 is not comparable" in ended.stdout, ended
    assert "1 records are the same" in ended.stdout, "the other topic is compared"


def test_a_busy_one_does_not_stop_the_topics_beside_it(running: tuple[Pair, Service]) -> None:
    """It computes all the time. A partition that shares a task with it has pauses, but goes on.

    New partitions go to the task with the least load, so that it depends on the tests before which ones share a task.
    """
    pair, service = running
    beside, busy = pair.topic("beside", 4), pair.topic("busy", 4)
    shared = service.wait_for("they share a task", lambda: partitions_beside(pair, beside, busy))[0]
    load, follower = Load(pair.source, {beside: 4}, rate=4 * RATE), Follower(pair.target, pair.remote(beside), shared)
    with load, follower:
        service.wait_for("the load is copied", lambda: follower.arrivals)
        for partition in range(4):
            pair.produce(busy, *numbers(0, 1_000), partition=partition)
        service.wait_for("it computes", lambda: oracle.count(pair.copied(busy)) > 0)
        began = time.monotonic()
        service.wait_for("it goes on", lambda: sum(at > began for at in list(follower.arrivals)) > 3)
        assert oracle.count(pair.copied(busy)) < 4_000, "it was busy all the time"
    pair.await_same(beside)


def partitions_beside(pair: Pair, topic: str, other: str) -> list[int]:
    """The partitions of `topic` that share a task with a partition of `other`."""
    return [number for each in pair.newest_plan()["slices"] if other in each for number in each.get(topic, ())]


def test_one_that_hangs_is_told_and_stops_nobody(running: tuple[Pair, Service]) -> None:
    pair, service = running
    hangs = pair.prefix + "slow"
    event = service.wait_for_event("a transform hangs", topic=hangs)
    assert "shop_transforms.slow does not return for the record at offset 1" in event["reason"]
    assert "slow (" in event["stack"]
    service.wait_for("shown", lambda: service.metric("mirror_partitions", topic=hangs, state="retrying") == 1)
    assert [record.value for record in pair.copied(hangs)[0]] == [b"x"]
    other = pair.topic("plain")
    pair.produce(other, *numbers(0, 10))
    pair.await_same(other)
