"""With which configuration remote topics are created, if the target refuses the one of the source topic."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic

from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.kafka.topic_creation import ANY_TIME
from mirror.settings import Cluster
from mirror.target.timestamps import KEEP
from mirror.topics.creation import RemoteTopicCreator, Wanted, reduced
from tests.unit.test_naming import flow

OWN = {"retention.ms": "1", "cleanup.policy": "compact"}
BASE = {**OWN, **KEEP, **ANY_TIME}
NO_NAME = "Broker: Configuration is invalid"


@pytest.mark.parametrize(
    ("reason", "known", "left_out"),
    [
        # what the target tells of its topics decides
        (NO_NAME, BASE.keys(), {"x.y"}),
        ("Unknown topic config name: x.y", BASE.keys(), {"x.y"}),
        # mirror sets this one, whatever the target tells
        (NO_NAME, {"x.y", *OWN, *ANY_TIME}, set(ANY_TIME)),
        # nothing is told, so the reason decides
        ("Unknown topic config name: x.y", (), {"x.y"}),
        ("Unknown topic config name: message.timestamp.after.max.ms", (), {"message.timestamp.after.max.ms"}),
        # not one of these, but a value: an older target may refuse those of mirror's own
        ("Invalid value 1 for configuration x.y: Value must be at least 7", (), set(ANY_TIME)),
        (NO_NAME, (), set(ANY_TIME)),
        (NO_NAME, {"x.y", *BASE}, set(ANY_TIME)),
    ],
)
def test_what_is_left_of_a_refused_configuration(reason: str, known: Iterable[str], left_out: set[str]) -> None:
    config = {**BASE, "x.y": "1"}
    assert reduced(config, reason, set(known)) == {k: v for k, v in config.items() if k not in left_out}


def test_nothing_more_is_left_out_once_only_values_can_be_the_reason() -> None:
    left = {**OWN, **KEEP}
    assert reduced(left, NO_NAME, ()) == left
    assert reduced(left, "Invalid value 1 for configuration retention.ms", BASE.keys()) == left


class Target(ClusterAdmin):
    """Refuses what it does not know, and values below 0, as Kafka does: with the first such key."""

    def __init__(self, *known: str, tells: bool) -> None:
        super().__init__(Cluster("backup", {}, {}, {}))
        self.known = known
        self.tells = tells
        self.made: dict[str, dict[str, str]] = {}
        self.requests = 0

    def topic_configs(self, names: Iterable[str], own: bool = True) -> tuple[dict[str, dict[str, str]], Refusals]:
        return ({name: dict.fromkeys(self.known, "") for name in names} if self.tells else {}), {}

    def create_topics(self, topics: Iterable[NewTopic]) -> Refusals:
        self.requests += 1
        refused = {}
        for topic in topics:
            unknown = [key for key in topic.config if key not in self.known]
            bad = [key for key, value in topic.config.items() if value.startswith("-")]
            if unknown or bad:
                said = f"Unknown topic config name: {unknown[0]}" if unknown else f"Invalid value for {bad[0]}"
                refused[topic.topic] = KafkaError(KafkaError.INVALID_CONFIG, said)
            else:
                self.made[topic.topic] = dict(topic.config)
        return refused


WANTED: Wanted = {
    "plain": (1, OWN),
    "newer": (1, {**OWN, "x.y": "1", "z": "1"}),
    "alike": (1, {**OWN, "x.y": "1", "z": "2"}),
    "value": (1, {**OWN, "retention.ms": "-5", "z": "1"}),
}


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("tells", [False, True])
def test_topics_are_created_with_what_the_target_knows(
    tells: bool, older: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kept = {**OWN, **KEEP} if older else BASE
    target = Target(*kept, tells=tells)
    refused = RemoteTopicCreator(flow(), target).create(WANTED, ["there"])
    assert target.made == dict.fromkeys(("plain", "newer", "alike"), kept)
    assert list(refused) == ["value"] and "retention.ms" in refused["value"].str()
    (said,) = caplog.records
    assert (said.__dict__["topics"], said.__dict__["keys"]) == ("newer, alike", "x.y, z")


def test_what_the_target_takes_is_asked_for_once(caplog: pytest.LogCaptureFixture) -> None:
    target = Target(*BASE, tells=True)
    assert not RemoteTopicCreator(flow(), target).create({"plain": (1, OWN)})
    assert target.requests == 1 and not caplog.records
