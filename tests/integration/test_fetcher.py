"""What the one consumer of a task knows of topics that are deleted and created again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirror.config.load import load
from mirror.kafka.throttling import Throttle
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.source.fetch_moves import StartFetching, StopFetching
from mirror.source.fetcher import Fetcher
from mirror.task.copier import RecordCopier
from mirror.task.known_positions import StartPoint
from tests.harness import topics
from tests.harness.idle import Idle
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.waiting import until

pytestmark = pytest.mark.one_path


@pytest.fixture
def flow(pair: Pair, tmp_path: Path) -> Flow:
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    return load(file, {}).flows[0]


def test_a_plan_that_knows_of_a_newer_topic_than_the_consumer_finds_nothing_lost(pair: Pair, flow: Flow) -> None:
    """While nothing is fetched from the topic that is gone, the consumer would keep to its id for minutes."""
    name = pair.topic("again", 2)
    fetcher: Fetcher[RecordCopier] = Fetcher(flow, Throttle())

    def join(number: int) -> RecordCopier:
        topic = Topic(pair.remote(name), topics.topic_id(pair.source, name), 2, 2)
        start = StartPoint(0, Position(0, topic.topic_id))
        copier = RecordCopier(Idle().services(flow), Partition(name, number), topic, start)
        fetcher.moves.put(StartFetching(copier))
        return copier

    def gets(copier: RecordCopier, records: int) -> bool:
        fetcher.poll()
        return len(copier.buffer) == records

    pair.produce(name, Made(b"old", b"old"))
    old = join(0)
    until("the old record", lambda: gets(old, 1))
    fetcher.moves.put(StopFetching(old))
    fetcher.poll()
    topics.recreate(pair.source, name, 2)
    for number in range(2):
        pair.produce(name, Made(b"new", b"new"), Made(b"new", b"newer"), partition=number)
    new = [join(number) for number in range(2)]
    for copier in new:
        until("the new records", lambda copier=copier: gets(copier, 2))  # type: ignore[misc]
        assert not copier.buffer.sealed
    fetcher.close()
