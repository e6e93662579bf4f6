"""Which checkpoints are written, and which are withdrawn because their remote topic is another one now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway
from mirror.groups import checkpoint_writer
from mirror.groups.checkpoint_writer import CheckpointWriter
from mirror.groups.checkpoints import Checkpoint
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_offsets import Committed
from mirror.groups.group_sync import GroupOffset
from mirror.model import Partition
from mirror.settings import Flow
from tests.unit.test_naming import flow

PARTITION, REMOTE = Partition("orders", 0), Partition("primary.orders", 0)
TOPIC = flow().checkpoint_topic
OLD, NEW = "old-id", "new-id"
NOT_HERE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
NOT_ALLOWED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


def translated(downstream: int | None, upstream: int = 100, remote_id: str = OLD, group: str = "g") -> GroupOffset:
    at = Committed(upstream, "mine")
    return GroupOffset(group, PARTITION, at, 0, downstream, None, GroupOutcome.EXACT, "", remote_id)


def checkpoint(downstream: int, upstream: int = 100, group: str = "g", remote: str = REMOTE.topic) -> Checkpoint:
    return Checkpoint(group, remote, 0, upstream, downstream, "mine")


UNKNOWN = translated(None, remote_id="")


class Target:
    """In place of the target: the topics' ids, the logs' starts and ends, and the checkpoints that stand there."""

    def __init__(self) -> None:
        self.ids: dict[str, str | KafkaError] = {TOPIC: "id", REMOTE.topic: OLD}
        self.starts, self.ends = {REMOTE: 3}, {REMOTE: 60}
        self.stands: dict[bytes, bytes | None] = {}
        self.written: list[dict[bytes, bytes | None]] = []
        self.reads = 0
        self.fails = False

    def ids_now(self, names: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        found = {name: self.ids.get(name, NOT_HERE) for name in names}
        refused = {name: each for name, each in found.items() if isinstance(each, KafkaError)}
        return {name: each for name, each in found.items() if name not in refused}, refused

    def offsets(self, asked: Mapping[Partition, OffsetSpec], stable: bool = True) -> dict[Partition, int]:
        assert not stable
        known = [self.starts if each._value == OffsetSpec.earliest()._value else self.ends for each in asked.values()]
        return {at: some[at] for at, some in zip(asked, known, strict=True) if at in some}

    def write(self, records: Mapping[bytes, bytes | None], written: Callable[[bytes], object]) -> None:
        self.written.append(dict(records))
        self.stands |= records
        for key in records:
            written(key)

    def close(self) -> None: ...

    def read(self, _: Flow, wanted: Callable[[Checkpoint], bool]) -> dict[bytes, bytes]:
        self.reads += 1
        if self.fails:
            raise ClusterAway("backup", "no answer in time")
        return {k: v for k, v in self.stands.items() if v is not None and wanted(Checkpoint.decode(k, v))}

    @property
    def checkpoints(self) -> list[Checkpoint]:
        return [Checkpoint.decode(key, value or b"") for key, value in self.stands.items()]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()
    monkeypatch.setattr(checkpoint_writer, "ClusterAdmin", lambda _: made)
    monkeypatch.setattr(checkpoint_writer, "OwnTopicWriter", lambda *_: made)
    monkeypatch.setattr(checkpoint_writer, "read_checkpoints", made.read)
    return made


def write(writer: CheckpointWriter, *found: GroupOffset, rounds: int = 2) -> None:
    for _ in range(rounds):
        writer.write(found)


def test_only_what_has_changed_is_written(target: Target) -> None:
    writer = CheckpointWriter(flow())
    write(writer, translated(50))
    write(writer, translated(51))
    assert target.checkpoints == [checkpoint(51)]
    write(CheckpointWriter(flow()), translated(51))
    assert [len(each) for each in target.written] == [1, 0, 1, 0, 0, 0], "another leader reads what stands there"
    target.ids[TOPIC], target.stands = "another", {}
    write(writer, translated(51))
    assert target.checkpoints == [checkpoint(51)], "the topic was created again"


@pytest.mark.parametrize("passing", [UNKNOWN, replace(UNKNOWN, group="other"), None])
def test_a_checkpoint_stays_as_long_as_its_remote_topic_is_the_same(
    target: Target, passing: GroupOffset | None
) -> None:
    """Its offset is not known now, or its group is gone, as with MirrorMaker."""
    writer = CheckpointWriter(flow())
    write(writer, translated(50))
    write(writer, *filter(None, [passing]), rounds=3)
    target.ids[REMOTE.topic] = NOT_ALLOWED
    write(writer, *filter(None, [passing]), rounds=3)
    assert target.checkpoints == [checkpoint(50)]


@pytest.mark.parametrize("left", [UNKNOWN, None])
def test_a_checkpoint_of_a_topic_that_was_created_again_is_withdrawn(target: Target, left: GroupOffset | None) -> None:
    """Once two rounds have seen the new topic: a broker may know an old one."""
    writer = CheckpointWriter(flow())
    write(writer, translated(50))
    target.ids[REMOTE.topic] = NEW
    found = list(filter(None, [left]))
    write(writer, *found, rounds=1)
    assert target.checkpoints == [checkpoint(50)]
    write(writer, *found, rounds=1)
    assert target.checkpoints == [checkpoint(3)], "at the start of the new topic"
    write(writer, *found, rounds=3)
    assert [len(each) for each in target.written] == [1, 0, 0, 1, 0, 0, 0]
    write(writer, translated(20, remote_id=NEW))
    assert target.checkpoints == [checkpoint(20)], "it is translated again"


def test_a_checkpoint_of_a_topic_that_was_deleted_is_withdrawn(target: Target) -> None:
    """The topic that may get its name one day begins at 0."""
    writer = CheckpointWriter(flow())
    write(writer, translated(50))
    del target.ids[REMOTE.topic]
    write(writer, UNKNOWN, rounds=1)
    assert target.checkpoints == [checkpoint(50)], "a broker may not know it yet"
    write(writer, UNKNOWN, rounds=3)
    target.ids[REMOTE.topic] = NEW
    write(writer, UNKNOWN, rounds=3)
    assert target.checkpoints == [checkpoint(0)] and sum(map(len, target.written)) == 2


@pytest.mark.parametrize(("downstream", "becomes"), [(61, 3), (60, 60)])
def test_a_checkpoint_of_an_earlier_leader_is_withdrawn_if_the_remote_log_ends_before_it(
    target: Target, downstream: int, becomes: int
) -> None:
    """For which topic it was written, is not known. From then on it counts as one of the topic as it is."""
    earlier = checkpoint(downstream)
    others = [checkpoint(61, group="not-ours"), checkpoint(61, remote="primary.offline")]
    target.stands = {each.key(): each.value() for each in (earlier, *others)}
    target.ids["primary.offline"] = "offline-id"
    writer = CheckpointWriter(flow(groups=replace(flow().groups, exclude=("not-ours",))))
    write(writer, UNKNOWN, rounds=3)
    assert target.checkpoints == [replace(earlier, downstream=becomes), *others] and target.reads == 1
    target.ids[REMOTE.topic] = NEW
    write(writer, UNKNOWN, rounds=3)
    assert target.checkpoints == [replace(earlier, downstream=3), *others]


def test_checkpoints_are_written_where_the_earlier_ones_cannot_be_read(target: Target) -> None:
    target.fails = True
    write(CheckpointWriter(flow()), translated(50), rounds=9)
    assert target.checkpoints == [checkpoint(50)] and target.reads == checkpoint_writer.READS


def test_what_is_not_translated_any_more_is_forgotten_in_the_end(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups come and go. Their checkpoints stay on the topic, but are not looked at."""
    monkeypatch.setattr(checkpoint_writer, "OTHERS_MAX", 2)
    writer = CheckpointWriter(flow())
    for number in range(5):
        write(writer, translated(50, group=f"g{number}"))
    assert len(writer._stands) == 3
    target.ids[REMOTE.topic] = NEW
    write(writer, rounds=3)
    assert [each.downstream for each in target.checkpoints] == [50, 50, 50, 3, 3]
