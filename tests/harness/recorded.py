"""Answers of a real broker, recorded once, for tests that damage them.

`python -m tests.harness.recorded` starts a broker of this machine and records them again.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirror.batches.records import Content
from mirror.batches.stamping import stamp
from mirror.demo.brokers import LocalCluster
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.fetch import Limits, Session, TopicKey, Wanted, fetch
from mirror.wire.greeting import api_versions
from mirror.wire.groups import list_groups
from mirror.wire.metadata import GROUP, TRANSACTION, find_coordinators, metadata
from mirror.wire.offsets import Offset, list_offsets, offset_commit, offset_fetch
from mirror.wire.produce import ALL, Batch, produce
from mirror.wire.producers import describe_producers
from mirror.wire.requests import Request
from mirror.wire.transactional import Identity, end_txn, init_producer_id, txn_offset_commit
from mirror.wire.transactions import list_transactions
from tests.harness import batches, topics
from tests.harness.waiting import INTERVAL, until

FILE = Path(__file__).parents[1] / "unit" / "wire" / "answers.json"
TOPIC, GROUP_NAME, TRANSACTION_NAME = "recorded", "a-group", "a-transaction"
NONE, WHERE = bytes(16), (TOPIC, 0)
NOWHERE = TopicKey("x", NONE)
BY = Identity(TRANSACTION_NAME, 0, 0)
LIMITS = Limits(wait=0.5, most=2**20)

# How each kind of answer is read. Of what is asked, only how much matters for that.
REQUESTS: Mapping[str, Request[Any]] = {
    request.api.name: request
    for request in (
        api_versions(),
        metadata([TOPIC, "absent"]),
        find_coordinators(GROUP, [GROUP_NAME, "b"]),
        fetch({}, LIMITS),
        produce(None, [Batch(NOWHERE, 0, memoryview(b""))] * 2, ALL),
        init_producer_id("", 1),
        end_txn(BY, True),
        txn_offset_commit(BY, "", {WHERE: Offset(0, "")}),
        offset_commit("", {WHERE: Offset(0, "")}),
        offset_fetch("", [WHERE] * 2),
        list_offsets(TOPIC, 0, 0, True),
        list_transactions(),
        describe_producers(TOPIC, 0),
        list_groups(),
    )
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer without size and correlation id."""

    request: Request[Any]
    version: int
    data: bytes


def answers() -> list[Answer]:
    """What was recorded."""
    found = json.loads(FILE.read_text())
    return [Answer(REQUESTS[each["name"]], each["version"], bytes.fromhex(each["data"])) for each in found]


class Recorder(Connection):
    """A connection that keeps the answers."""

    kept: list[dict[str, Any]]

    def _answered(self, frame: memoryview) -> None:
        sent = self._sent[0]
        kept = {"name": sent.request.api.name, "version": sent.version, "data": bytes(frame[4:]).hex()}
        self.kept = [*getattr(self, "kept", []), kept]
        super()._answered(frame)


async def _record(bootstrap: str) -> list[dict[str, Any]]:
    known = access({"bootstrap.servers": bootstrap})
    connection = await Recorder.open(known.servers[0], known)
    topic = TopicKey(TOPIC, (await connection.ask(metadata([TOPIC, "absent"]))).topics[TOPIC].id)
    await connection.ask(find_coordinators(GROUP, [GROUP_NAME, "b"]))
    while (await connection.ask(find_coordinators(TRANSACTION, [TRANSACTION_NAME])))[TRANSACTION_NAME].error:
        await asyncio.sleep(INTERVAL)  # their topic is made when the first asks
    await connection.ask(offset_commit(GROUP_NAME, {WHERE: Offset(5, "before")}))
    for commit in (False, True):
        while (entered := await connection.ask(init_producer_id(TRANSACTION_NAME, 60))).error:
            await asyncio.sleep(INTERVAL)
        by = Identity(TRANSACTION_NAME, entered.producer, entered.epoch)
        data = memoryview(bytearray(batches.batch([(n, n, Content(b"key", b"%d" % n, ())) for n in range(3)])))
        stamp(data, by.producer, by.epoch, 0)
        await connection.ask(produce(by.name, [Batch(topic, 0, data)], ALL))
        await connection.ask(txn_offset_commit(by, GROUP_NAME, {WHERE: Offset(7, "in it")}))
        await connection.ask(offset_fetch(GROUP_NAME, [WHERE]))
        await connection.ask(describe_producers(TOPIC, 0))
        ended = await connection.ask(end_txn(by, commit))
        assert not ended.error, ended
    await connection.ask(produce("refused", [Batch(topic, 0, data), Batch(NOWHERE, 0, data)], ALL))
    for number in range(3):
        await connection.ask(fetch({topic: [Wanted(0, number * 4, 2**20, 0)]}, LIMITS, Session(0, 0)))
    await connection.ask(fetch({NOWHERE: [Wanted(0, 0, 1)]}, LIMITS))
    await connection.ask(offset_fetch(GROUP_NAME, [WHERE, (TOPIC, 1)]))
    await connection.ask(list_offsets(TOPIC, 0, 0, True))
    await connection.ask(list_transactions())
    await connection.ask(list_groups())
    connection.close()
    return list({(each["name"], each["data"]): each for each in connection.kept}.values())


def main() -> None:
    """Record the answers again."""
    with tempfile.TemporaryDirectory() as directory, LocalCluster("recorded", Path(directory)) as cluster:
        topics.create(cluster.bootstrap, TOPIC, retention_ms=-1)
        until("coordinators", lambda: topics.coordinator(cluster.bootstrap, GROUP_NAME) is not None)
        found = asyncio.run(_record(cluster.bootstrap))
    FILE.write_text("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]\n")


if __name__ == "__main__":
    main()
