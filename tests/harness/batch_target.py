"""Stands in for a target cluster: does what brokers do for one producer's transactions, or fails at any request."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from mirror.batches.headers import RecordBatch, walk
from mirror.batches.records import Content, records
from mirror.errors import WireError
from mirror.wire.access import Address
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FetchAnswer, PartitionAnswer
from mirror.wire.metadata import NO_ID, Leader
from mirror.wire.offsets import Offset, Offsets
from mirror.wire.produce import ProduceAnswer, Produced
from mirror.wire.producers import Described, OpenTransaction
from mirror.wire.requests import Api, Request
from mirror.wire.transactional import Entered
from mirror.wire.writer import Writer
from tests.harness import batches
from tests.harness.batch_requests import BARRIER, ID, MAP, SYNCS, Sent, offset_committed, offset_wanted, seen

REMOTE_ID = "cmVtb3RlLXJlbW90ZS1yZQ"
PRODUCER = 7


@dataclass(frozen=True)
class Lost:
    """Stands in for an answer: an error comes, though the request has had its effect."""

    error: WireError


Fault = WireError | Lost | int  # or an error code


@dataclass
class Target:
    """Topics, one producer's open transaction, and a position."""

    faults: dict[int, Fault] = field(default_factory=dict)  # by number of the request
    kinds: dict[str, list[int]] = field(default_factory=dict)  # error codes of the next answers of a kind
    nodes: dict[str, int] = field(default_factory=dict)  # by topic: its leader, if not 1
    ends: dict[str, int] = field(default_factory=lambda: {"remote": 100, SYNCS: 5, MAP: 9})
    only: str = ""  # topic that an error code is for, if not for all
    silent: str = ""  # topic that answers to Produce leave out
    others: list[int] = field(default_factory=list)  # by Produce to the remote topic: records of others before it
    append_time: int = -1
    level: int = 2  # of transaction.version
    versions: dict[str, int] = field(default_factory=dict)  # the last ones, where they are older than ours
    unaware: bool = False  # of the cluster's features, until the connection is closed
    delay: float = 0.0  # seconds before each answer that is waited for
    position: Offset = field(default_factory=lambda: Offset(-1, ""))
    log: Callable[[int], tuple[bytes, Sequence[tuple[int, int]]]] = lambda _: (b"", ())  # what Fetch finds at an offset
    stable: list[int] = field(default_factory=list)  # last stable offsets that are answered first
    tokens: list[str] = field(default_factory=list)  # that are answered first
    torn: str = ""  # the next commit takes effect for this only: "records", or the "position"
    quiet: float = 0.0  # until then a quota holds transactions back, monotonic
    held: int = 0  # answers in which a transaction holds the position
    epoch: int = 3
    requests: list[Sent] = field(default_factory=list)
    isolations: list[int] = field(default_factory=list)  # of the requests for records: 1 is read_committed
    forgotten: list[str] = field(default_factory=list)
    unreplicated: set[tuple[str, int]] = field(default_factory=set)
    committed: dict[str, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))  # encoded, by offset
    commits: int = 0
    committed_at: list[float] = field(default_factory=list)  # monotonic
    _open: dict[str, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    _open_position: Offset | None = None
    _sequences: dict[str, int] = field(default_factory=dict)
    _token: str = ""

    async def leader(self, topic: str, partition: int) -> Leader:
        return Leader(self.nodes.get(topic, 1), 4)

    async def coordinator(self, kind: int, name: str) -> int:
        return 20 + kind

    async def connection(self, node: int, purpose: str = "other") -> Connected:
        return Connected(self, node, purpose)

    async def any(self) -> Connected:
        return Connected(self, 1, "other")

    def topic_id(self, topic: str) -> bytes:
        return ID.get(topic, NO_ID)

    def quiet_until(self, topic: str, partition: int, purpose: str) -> float:
        return self.quiet

    def forget_leader(self, topic: str, partition: int) -> None:
        self.forgotten.append(topic)

    def forget_coordinator(self, kind: int, name: str) -> None:
        self.forgotten.append(name)

    def hint(self, topic: str, partition: int, leader: Leader, address: Address | None) -> None:
        self.forgotten.append(f"{topic} to {leader.node}")

    def count(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.requests)

    @property
    def produced(self) -> list[Sent]:
        return [each for each in self.requests if each.kind == "Produce"]

    def do(self, kind: str, body: bytes, sent: Sent, data: Mapping[str, memoryview]) -> Any:
        """Have the effect of a request, and return its answer."""
        effects: dict[str, Callable[[], Any]] = {
            "Produce": lambda: self._produce(sent, data, 0),
            "InitProducerId": lambda: self._ended(None),
            "EndTxn": lambda: self._ended(Cursor(body, 5, True)),
            "TxnOffsetCommit": lambda: self._add_position(Cursor(body, 5, True)),
            "OffsetCommit": lambda: self._commit_token(Cursor(body, 9, True)),
            "OffsetFetch": self._position,
            "DescribeProducers": lambda: Described(0, [OpenTransaction(PRODUCER + 1, 2, self.ends["remote"] - 10)]),
            "Fetch": lambda: self._fetched(Cursor(body, 17, True)),
            "ListOffsets": lambda: (0, self.stable.pop(0) if self.stable else self.ends["remote"]),
        }
        return effects[kind]()

    def _add_position(self, body: Cursor) -> Mapping[tuple[str, int], int]:
        body.string(), body.string(), body.int64()
        if body.int16() != self.epoch:
            return {("remote", 0): CODES["INVALID_PRODUCER_EPOCH"]}
        body.int32(), body.string(), body.string()
        ((topic, position),) = body.by_topic(offset_committed, 5)
        assert topic == "remote"
        self._open_position = position
        return {("remote", 0): 0}

    def _commit_token(self, body: Cursor) -> Mapping[tuple[str, int], int]:
        body.string(), body.int32(), body.string(), body.string()
        ((topic, token),) = body.by_topic(offset_committed, 5)
        assert topic == BARRIER
        self._token = token.metadata
        return {(BARRIER, 0): 0}

    def _position(self) -> Offsets:
        self.held -= 1
        error = CODES["UNSTABLE_OFFSET_COMMIT"] if self.held >= 0 else 0
        token = self.tokens.pop(0) if self.tokens else self._token
        return Offsets(0, {(BARRIER, 0): (0, Offset(0, token)), ("remote", 0): (error, self.position)})

    def _fetched(self, body: Cursor) -> FetchAnswer:
        self.isolations.append(body.unpack(struct.Struct(">iiibii"))[3])
        ((topic, at),) = body.by_topic_id(offset_wanted, 33)
        records, aborted = self.log(at)
        data = memoryview(bytearray(records))
        found = PartitionAnswer(0, 0, self.ends["remote"], aborted, data, None, None, -1, self.ends["remote"])
        return FetchAnswer(0, 0, [(topic, found)], {}, len(data), False)

    def refuse(self, kind: str, code: int, sent: Sent) -> Any:
        """The answer with an error code, without any effect."""
        if kind == "Fetch":
            return FetchAnswer(code, 0, [], {}, 0, False)
        if kind == "Produce":
            return self._produce(sent, {}, code)
        where = {"TxnOffsetCommit": ("remote", 0), "OffsetCommit": (BARRIER, 0)}
        if kind in where:
            return {where[kind]: code}
        if kind == "OffsetFetch":
            return Offsets(code, {})
        return (code, -1) if kind == "ListOffsets" else Entered(code, -1, -1)

    def _ended(self, commit: Cursor | None) -> Entered:
        """The end of a transaction, or the begin of another owner, which aborts it. Both give a new epoch."""
        if commit:
            commit.string(), commit.int64()
            if commit.int16() != self.epoch:
                return Entered(CODES["PRODUCER_FENCED"], -1, -1)
        if commit:
            self.commits += 1
            self.committed_at.append(time.monotonic())
            only, self.torn = self.torn, ""
            for topic, found in self._open.items() if only != "position" else ():
                self.committed[topic].update(found)
            self.position = self._open_position or self.position if only != "records" else self.position
        for topic in self._open:
            self.ends[topic] += 1  # a marker
        self._open.clear()
        self._sequences.clear()
        self._open_position = None
        self.epoch += 1
        return Entered(0, PRODUCER, self.epoch)

    def _produce(self, sent: Sent, data: Mapping[str, memoryview], code: int) -> ProduceAnswer:
        found = []
        for topic, sequence, _ in sent.batches:
            refused = code if self.only in ("", topic) else 0
            base = -1 if refused else self.ends[topic]
            if not refused and data:
                base, refused = self._append(topic, sequence, data[topic])
            leader = Leader(5, 9) if refused == CODES["NOT_LEADER_OR_FOLLOWER"] else None
            appended = self.append_time if topic == "remote" else -1
            if topic != self.silent:
                found.append((ID[topic], Produced(0, refused, base, "", leader, appended)))
        return ProduceAnswer(found, {5: ("e", 5)})

    def _append(self, topic: str, sequence: int, data: memoryview) -> tuple[int, int]:
        (batch,) = walk(memoryview(bytearray(data)))
        producer, epoch = struct.unpack_from(">qh", data, 43)
        if (producer, epoch) != (PRODUCER, self.epoch):
            return -1, CODES["INVALID_PRODUCER_EPOCH"]
        if sequence != self._sequences.get(topic, 0):
            return -1, CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
        if topic == "remote" and self.others:
            self.ends[topic] += self.others.pop(0)
        base = self.ends[topic]
        for place, (_, _, content) in enumerate(records(batch)):
            self._open[topic][base + place] = content
        self.ends[topic] += batch.records
        self._sequences[topic] = sequence + batch.records
        return base, 0


@dataclass(frozen=True)
class Connected:
    """A connection to one of these brokers."""

    target: Target
    node: int
    purpose: str

    @property
    def abilities(self) -> Any:
        known = {} if self.target.unaware else {"metadata.version": 25, "transaction.version": self.target.level}
        return SimpleNamespace(features=SimpleNamespace(finalized=known))

    def version(self, api: Api) -> int:
        return api.version({api.key: (0, self.target.versions.get(api.name, api.last))})

    @property
    def name(self) -> str:
        return f"broker {self.node}"

    def close(self) -> None:
        self.target.unaware = False

    def retire(self) -> None:
        self.close()

    def send(self, request: Request[Any]) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        kind, target = request.api.name, self.target
        writer = Writer(request.api.last, True)
        request.write(writer)
        body = b"".join(writer.parts)
        sent, data = seen(kind, body, self.node, self.purpose)
        number = len(target.requests)
        target.requests.append(sent)
        codes = target.kinds.get(kind)
        fault = codes.pop(0) if codes else target.faults.get(number, 0)
        if isinstance(fault, WireError):
            future.set_exception(fault)
        elif isinstance(fault, Lost):
            target.do(kind, body, sent, data)
            future.set_exception(fault.error)
        elif fault and not (target.only and kind == "Produce"):
            future.set_result(target.refuse(kind, fault, sent))
        elif fault:
            future.set_result(target._produce(sent, data, fault))
        else:
            future.set_result(target.do(kind, body, sent, data))
        if future.exception():
            pass  # perhaps nobody waits for it any more
        return future

    async def ask(self, request: Request[Any]) -> Any:
        await asyncio.sleep(self.target.delay)
        return await self.send(request)


def made(*counts: int, at: int = 0, gaps: Sequence[int] = ()) -> list[RecordBatch]:
    """Batches with so many records, one after another, with so many offsets missing before each."""
    found: list[RecordBatch] = []
    missing: Iterator[int] = iter(gaps)
    for count in counts:
        at += next(missing, 0)
        contents = [(at + n, 1_000 + at + n, Content(b"%d" % (at + n), None, ())) for n in range(count)]
        found += walk(memoryview(bytearray(batches.batch(contents))))
        at += count
    return found
