"""A fake broker that coordinates groups as Kafka 3.0 does: real ones neither move nor fall silent when a test wants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pytest

from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES
from mirror.wire.offsets import Offset, Where
from mirror.wire.writer import Writer
from tests.harness import fake_broker
from tests.harness.fake_broker import FakeBroker

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
NOTHING = Offset(-1, "")
FLEXIBLE = 8  # the first version of OffsetCommit with tagged fields
VERSIONS = {OFFSET_COMMIT: (2, 8), OFFSET_FETCH: (1, 8), FIND_COORDINATOR: (0, 4)}


@dataclass(frozen=True)
class Commit:
    """What an OffsetCommit says."""

    group: str
    generation: int
    member: str
    instance: str | None
    offsets: Mapping[Where, Offset]
    keep: int | None = None  # milliseconds, where it says for how long the offsets are kept


@dataclass(frozen=True)
class Fetch:
    """What an OffsetFetch asks for."""

    group: str
    names: Sequence[Where] | None  # None: all offsets of the group
    stable: bool


class FakeCoordinator(FakeBroker):
    """It says that `port_of_coordinator` is where each group is coordinated; at first, that is its own.

    `commit` gives the error codes for a commit, None for no answer. `given` are the offsets of any group, and of
    those in `pending` a transaction holds a newer one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(fake_broker, "VERSIONS", fake_broker.VERSIONS | VERSIONS)
        self.port_of_coordinator = self.port
        self.commits: list[Commit] = []
        self.commit: Callable[[Commit], Mapping[Where, int] | None] = lambda made: dict.fromkeys(made.offsets, 0)
        self.fetches: list[Fetch] = []
        self.given: Mapping[Where, Offset] = {}
        self.pending: Collection[Where] = ()
        self.answers = self._answer

    def _answer(self, api: int, body: bytes) -> bytes:
        if api == FIND_COORDINATOR:
            return self._coordinator(body)
        if api == OFFSET_FETCH:
            return self._fetched(body)
        plain = self.requests[-1].version < FLEXIBLE
        self.commits.append(plain_commit(body) if plain else commit(body))
        errors = self.commit(self.commits[-1])
        return b"" if errors is None else committed(errors, not plain)

    def _coordinator(self, body: bytes) -> bytes:
        asked = _body(body, 4)
        asked.int8()
        names = asked.array(Cursor.string, 1)

        def write(writer: Writer, name: str) -> None:
            writer.string(name).pack("i", self.port_of_coordinator).string("127.0.0.1")
            writer.pack("ih", self.port_of_coordinator, 0).string(None).tags()

        return _written(Writer(4, True).tags().pack("i", 0).array(names, write).tags())

    def _fetched(self, body: bytes) -> bytes:
        asked = fetch(body)
        self.fetches.append(asked)

        def write(writer: Writer, where: Where) -> None:
            topic, partition = where
            writer.string(topic).array((partition,), lambda each, number: write_partition(each, (topic, number))).tags()

        def write_partition(writer: Writer, where: Where) -> None:
            error = CODES["UNSTABLE_OFFSET_COMMIT"] if asked.stable and where in self.pending else 0
            at = NOTHING if error else self.given.get(where, NOTHING)
            writer.pack("iqi", where[1], at.offset, at.epoch).string(at.metadata).pack("h", error).tags()

        def write_group(writer: Writer, name: str) -> None:
            names = self.given if asked.names is None else asked.names
            writer.string(name).array(names, write).pack("h", 0).tags()

        return _written(Writer(8, True).tags().pack("i", 0).array((asked.group,), write_group).tags())


def fetch(body: bytes) -> Fetch:
    """An OffsetFetch for one group, version 8, from its header's end on."""
    read = _body(body, 8)

    def group(each: Cursor) -> tuple[str, Sequence[Where] | None]:
        name, names = each.string(), None
        if each.int8() != 0:
            each.back(1)
            names = each.by_topic(Cursor.int32, 4)
        each.tags()
        return name, names

    ((name, names),) = read.array(group, 1)
    stable = bool(read.int8())
    read.tags()
    read.end()
    return Fetch(name, names, stable)


def commit(body: bytes) -> Commit:
    """An OffsetCommit, version 8, from its header's end on."""
    read = _body(body, 8)
    group, generation, member = read.string(), read.int32(), read.string()
    instance = None if read.int8() == 0 else ""
    if instance is not None:
        read.back(1)
        instance = read.string()

    def partition(each: Cursor) -> tuple[int, Offset]:
        number, offset, epoch, metadata = each.int32(), each.int64(), each.int32(), each.string()
        each.tags()
        return number, Offset(offset, metadata, epoch)

    offsets = {(topic, number): at for topic, (number, at) in read.by_topic(partition, 18)}
    read.tags()
    read.end()
    return Commit(group, generation, member, instance, offsets)


def plain_commit(body: bytes) -> Commit:
    """An OffsetCommit, version 4, which has no tagged fields."""
    read = Cursor(body)
    group, generation, member, keep = read.string(), read.int32(), read.string(), read.int64()

    def partition(each: Cursor) -> tuple[int, Offset]:
        number, offset, metadata = each.int32(), each.int64(), each.string()
        return number, Offset(offset, metadata)

    offsets = {(topic, number): at for topic, (number, at) in read.by_topic(partition, 14)}
    read.end()
    return Commit(group, generation, member, None, offsets, keep)


def committed(errors: Mapping[Where, int], flexible: bool = True) -> bytes:
    """An answer to OffsetCommit, version 8, or else version 4."""

    def write(writer: Writer, item: tuple[Where, int]) -> None:
        (topic, partition), error = item
        writer.string(topic)
        writer.array((partition,), lambda each, number: each.pack("ih", number, error).tags()).tags()

    return _written(Writer(8, flexible).tags().pack("i", 0).array(errors.items(), write).tags())


def _body(body: bytes, version: int) -> Cursor:
    read = Cursor(body, version, True)
    read.tags()
    return read


def _written(writer: Writer) -> bytes:
    return b"".join(bytes(part) for part in writer.parts)
