"""Mirror's own topics take every timestamp: the clock of the host that writes to them may be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic

import mirror
from mirror.kafka import source_topic
from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.kafka.source_topic import SourceTopic
from mirror.kafka.topic_creation import ANY_TIME
from mirror.service.own_topics import own_topic
from mirror.service.topic_monitor import TopicMonitor
from tests.unit.test_naming import flow

FLOW = flow(on_poison_record="dead_letter")
FLOW = replace(FLOW, mirrormaker_offsets=replace(FLOW.mirrormaker_offsets, enabled=True))
COMPACTED = {"cleanup.policy": "compact"}


class Broker:
    """One that refuses topics with a key that it does not know."""

    def __init__(self, unknown: Iterable[str]) -> None:
        self.unknown = set(unknown)
        self.takes_nothing = False
        self.made: dict[str, NewTopic] = {}
        self.requests = 0

    def create(self, topics: Iterable[NewTopic]) -> Refusals:
        self.requests += 1
        refused: Refusals = {}
        for topic in topics:
            if self.takes_nothing or self.unknown & topic.config.keys():
                refused[topic.topic] = KafkaError(KafkaError.INVALID_CONFIG, "Unknown topic config name")
            else:
                self.made[topic.topic] = topic
        return refused


def none_is_there(_: ClusterAdmin, names: Iterable[str]) -> tuple[dict[str, str], Refusals]:
    return {}, {name: KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) for name in names}


@pytest.fixture(params=[True, False], ids=["Kafka 3.6", "an older one"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker(() if request.param else ANY_TIME)
    monkeypatch.setattr(ClusterAdmin, "create_topics", made.create)
    monkeypatch.setattr(ClusterAdmin, "ids_now", none_is_there)
    monkeypatch.setattr(ClusterAdmin, "topic_ids", lambda _, names: dict.fromkeys(names, "id"))
    monkeypatch.setattr(source_topic, "OwnTopicProducer", lambda _: SimpleNamespace())
    return made


def assert_made(broker: Broker, wanted: Iterable[NewTopic]) -> None:
    """They have their own configuration, and take every timestamp if the broker knows how."""
    more = {} if broker.unknown else ANY_TIME
    made = {t.topic: (t.num_partitions, t.replication_factor, t.config) for t in broker.made.values()}
    assert made == {t.topic: (t.num_partitions, t.replication_factor, {**t.config, **more}) for t in wanted}
    assert broker.requests == (2 if broker.unknown else 1)


def test_all_of_mirrors_own_topics_on_the_target_take_every_timestamp(broker: Broker) -> None:
    assert len(FLOW.own_topics) == 7
    TopicMonitor(FLOW).ensure_internal_topics()
    assert_made(broker, [own_topic(FLOW, name) for name in FLOW.own_topics])


def test_so_do_those_on_the_source(broker: Broker) -> None:
    assert SourceTopic(FLOW, FLOW.canary_topic, COMPACTED, "canaries")._create()
    assert_made(broker, [NewTopic(FLOW.canary_topic, 1, FLOW.internal_replication_factor, config=COMPACTED)])


def test_a_topic_that_is_refused_for_something_else_is_tried_only_once_more(broker: Broker) -> None:
    broker.takes_nothing = True
    topic = SourceTopic(FLOW, FLOW.canary_topic, COMPACTED, "canaries")
    assert not topic._create() and "Unknown topic config name" in topic.problem
    assert broker.requests == 2


def test_dead_letters_need_no_key_whatever_the_brokers_default_is(broker: Broker) -> None:
    TopicMonitor(FLOW).ensure_internal_topics()
    assert broker.made[FLOW.dead_letter_topic].config["cleanup.policy"] == "delete"


def test_an_own_topic_that_is_there_keeps_its_configuration(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterAdmin, "ids_now", lambda _, names: (dict.fromkeys(names, "id"), {}))
    TopicMonitor(FLOW).ensure_internal_topics()
    assert not broker.made


def test_no_topic_is_created_in_another_way() -> None:
    """But those of the demo, which are the user's."""
    there = Path(mirror.__file__).parent
    callers = {path.relative_to(there) for path in there.rglob("*.py") if ".create_topics(" in path.read_text()}
    own = {each for each in callers if each.parts[0] != "demo"}
    assert own == {Path("kafka/cluster.py"), Path("kafka/topic_creation.py")}
