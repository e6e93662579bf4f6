"""What the one consumer of a task knows of topics that are deleted and created again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirror.config.load import load
from mirror.kafka.throttling import Throttle
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.source.fetcher import Fetcher, Join, Leave
from mirror.task.assignment import Start
from mirror.task.replicator import Replicator
from tests.harness import topics
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.waiting import until


class Idle:
    """An owner whose replicators never make a step: only what the fetcher gives them counts here."""

    renew_interval = 3600.0

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def wake(self, replicator: Replicator, delay: float) -> None:
        """Nobody is woken."""


@pytest.fixture
def flow(pair: Pair, tmp_path: Path) -> Flow:
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    return load(file, {}).flows[0]


def test_a_plan_that_knows_of_a_newer_topic_than_the_consumer_finds_nothing_lost(pair: Pair, flow: Flow) -> None:
    """While nothing is fetched from the topic that is gone, the consumer would keep to its id for minutes."""
    name = pair.topic("again", 2)
    fetcher: Fetcher[Replicator] = Fetcher(flow, Throttle())

    def join(number: int) -> Replicator:
        topic = Topic(pair.remote(name), topics.topic_id(pair.source, name), 2, 2)
        start = Start(0, Position(0, topic.topic_id))
        replicator = Replicator(Idle(flow), Partition(name, number), topic, start)  # type: ignore[arg-type]
        fetcher.moves.put(Join(replicator))
        return replicator

    def gets(replicator: Replicator, records: int) -> bool:
        fetcher.poll()
        return len(replicator.buffer) == records

    pair.produce(name, Made(b"old", b"old"))
    old = join(0)
    until("the old record", lambda: gets(old, 1))
    fetcher.moves.put(Leave(old))
    fetcher.poll()
    topics.recreate(pair.source, name, 2)
    for number in range(2):
        pair.produce(name, Made(b"new", b"new"), Made(b"new", b"newer"), partition=number)
    new = [join(number) for number in range(2)]
    for replicator in new:
        until("the new records", lambda replicator=replicator: gets(replicator, 2))  # type: ignore[misc]
        assert not replicator.buffer.sealed
    fetcher.close()
