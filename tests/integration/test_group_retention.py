"""The target forgets no offset of a group while mirror runs, so no group goes back, unless somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_offsets import Committed, offsets_of
from mirror.groups.group_sync import GroupSync
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.settings import Cluster
from tests.harness import topics
from tests.harness.pair import Pair
from tests.harness.waiting import until

pytestmark = pytest.mark.slow

RENEW = 5.0  # seconds


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A target that forgets offsets after two minutes: one is the least, but that is what Kafka's tools may take."""
    settings = {"offsets.retention.minutes": 2, "offsets.retention.check.interval.ms": 500}
    with LocalCluster("forgets", tmp_path_factory.mktemp("forgets"), properties=settings) as cluster:
        yield cluster


def be_member(bootstrap: str, topic: str, group: str, offset: int, protocol: str = "classic") -> None:
    """Join a group, commit an offset, and leave."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol, "log_level": 0}
    with closing(Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        until(f"a member of {group}", joined)
        consumer.commit(offsets=[TopicPartition(topic, 0, offset, "mine")], asynchronous=False)


def test_what_a_group_has_on_the_target_is_kept_as_it_is(
    source_cluster: LocalCluster, forgetful: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """Kafka counts the time for a classic group from when its last member has left, however often we commit.

    A group that nobody keeps is forgotten meanwhile. Nothing is copied, so offset 0 is exact, and others are not known.
    """
    pair = Pair(source_cluster.bootstrap, forgetful.bootstrap, f"g{prefix[-7:-1]}", prefix)
    names = {name: f"{prefix}{name}" for name in ("exact", "back", "kip-848", "alone", "lost")}
    alone, topic = f"other-{prefix}", pair.topic("empty")
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings({"groups": {"sync": True, "include": list(names.values())}})))
    (flow,) = load(file).flows
    remote = topics.create(pair.target, pair.remote(topic))
    for own in (flow.control_topic, flow.offset_map_topic):
        topics.create(pair.target, own)
    for name, group in names.items():
        topics.commit(pair.source, group, topic, {0: 3 if name == "lost" else 0}, metadata="mine")
    topics.commit(pair.target, names["alone"], remote, {0: 5}, metadata="mine")
    for name, offset, protocol in (("exact", 0, "classic"), ("back", 5, "classic"), ("lost", 7, "classic")):
        be_member(pair.target, remote, names[name], offset, protocol)
    be_member(pair.target, remote, names["kip-848"], 5, "consumer")
    be_member(pair.target, remote, alone, 5)
    cluster = Cluster("there", {"bootstrap.servers": pair.target}, {}, {})

    def there(group: str) -> Committed | None:
        return offsets_of(cluster, group, {Partition(topic, 0): (remote, 0)})[0].get(Partition(topic, 0))

    back = GroupOutcome.BACKWARDS
    outcomes = {"exact": GroupOutcome.EXACT, "back": back, "kip-848": back, "alone": back}
    outcomes |= {"lost": GroupOutcome.UNTRANSLATED}
    offsets = {"exact": 0, "back": 5, "kip-848": 5, "alone": 5, "lost": 7}
    stands = {name: (outcomes[name], offset) for name, offset in offsets.items()}
    with closing(GroupSync(flow)) as sync:

        def is_forgotten() -> bool:
            done = sync.round(RENEW)
            if any(each.outcome is GroupOutcome.DENIED for each in done):
                return False  # the machine stood still: the next round commits
            assert {each.group.removeprefix(prefix): (each.outcome, each.committed) for each in done} == stands
            return there(alone) is None

        until("the other group is forgotten", is_forgotten)
        assert {name: there(group) for name, group in names.items()} == {
            name: Committed(offset, "mine\0") for name, offset in offsets.items()
        }
        states = ClusterAdmin(cluster).group_states()
        emptied = {names[name] for name in ("exact", "back", "lost")}
        assert emptied <= states.emptied, "they were not removed in between"
        topics.delete_offsets(pair.target, names["back"], remote)  # somebody wants it to go back
        (one,) = [each for each in sync.round(RENEW) if each.group == names["back"]]
    assert (one.outcome, one.committed) == (GroupOutcome.EXACT, 0)
