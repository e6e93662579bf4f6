"""A login that ends within a transaction of whole batches: brokers that want it renewed (KIP-368), or refuse that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.model import Position
from mirror.target.batch_transaction import BatchTransaction
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.metadata import metadata
from mirror.wire.produce import ProduceAnswer
from tests.failpoints.arm import Failpoints
from tests.harness import credentials, load, oracle
from tests.harness.batch_path import BatchPath, between
from tests.harness.configuration import AUTO
from tests.harness.listeners import also_listen
from tests.harness.load import Made, mixed
from tests.harness.pair import Pair
from tests.harness.service import TAKES_RECORDS, Service
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.one_path]

USER, NEW_PASSWORD = "mirror", "of-no-worth-either"
LASTS = 6_000  # ms for which a login lasts; clients have the last 15 % of it for the next one
RECORDS, BATCH = 1_000, 25  # records, and how many of them are in a batch: smaller ones would be merged


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, str]]:
    """A cluster that also listens with SCRAM and has logins renewed, and the address of that listener."""
    cluster = LocalCluster("reauthenticated", tmp_path_factory.mktemp("reauthenticated"))
    (broker,) = cluster.brokers
    address = also_listen(broker, "SASL_PLAINTEXT")
    name = f"listener.name.sasl_plaintext.{credentials.MECHANISM.lower()}"
    broker.properties |= {
        "sasl.enabled.mechanisms": credentials.MECHANISM,
        f"{name}.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        f"{name}.connections.max.reauth.ms": LASTS,
        "broker.session.timeout.ms": 60_000,  # one that stands until a login has ended goes on leading
    }
    with cluster:
        credentials.allow(cluster.bootstrap, USER)
        yield cluster, address


def shown(address: str) -> dict[str, str]:
    """What a client needs."""
    return {**credentials.properties(USER), "bootstrap.servers": address}


@pytest.fixture
def batches(pair: Pair, secured: tuple[LocalCluster, str], tmp_path: Path) -> BatchPath:
    """The batch path to that cluster, with records that make one transaction of many batches."""
    cluster, address = secured
    found = between(replace(pair, target=cluster.bootstrap), tmp_path)
    found.logins = {"backup": shown(address)}
    load.produce(found.source, found.topic, [mixed(number) for number in range(RECORDS)], batch_num_messages=BATCH)
    return found


class Logins:
    """The connections to a cluster in the order of their logins: each renewed login is one more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
        self.done: list[Connection] = []
        log_in = Connection._log_in

        async def logged_in(connection: Connection) -> None:
            await log_in(connection)
            if connection.access.cluster == cluster and connection.access.login:
                self.done.append(connection)

        monkeypatch.setattr(Connection, "_log_in", logged_in)

    @property
    def open(self) -> set[Connection]:
        """The connections that are open."""
        return {each for each in self.done if not each.closed}

    @property
    def renewed(self) -> set[Connection]:
        """Those that have logged in again."""
        return {each for each in self.done if self.done.count(each) > 1}


class Held:
    """Holds the first transaction open until all logins of before have ended. Meanwhile it may do something."""

    def __init__(self, meanwhile: Callable[[BatchTransaction], Awaitable[None]]) -> None:
        self._meanwhile = meanwhile
        self.begun = False
        self.over = False

    async def until_logins_end(self, transaction: BatchTransaction) -> None:
        """Return at once the second time."""
        if self.begun:
            return
        self.begun, ends = True, time.monotonic() + LASTS / 1000
        while time.monotonic() < ends:
            await self._meanwhile(transaction)
            await asyncio.sleep(0.01)
        self.over = True


def hold(held: Held, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold it before the position is put into the transaction, or between two Produces."""
    commit, send = BatchTransaction.commit_position, BatchTransaction._send

    async def committed_late(transaction: BatchTransaction, position: Position) -> None:
        if place == "position" and transaction._append_times:  # records are written
            await held.until_logins_end(transaction)
        await commit(transaction, position)

    async def sent_in_two(transaction: BatchTransaction, some: Sequence[Any], acks: int) -> list[Any]:
        half = len(some) // 2
        if held.begun or place != "produce" or not half:
            return [*await send(transaction, some, acks)]
        first: Sequence[ProduceAnswer | BaseException] = await send(transaction, some[:half], acks)
        await held.until_logins_end(transaction)
        return [*first, *await send(transaction, some[half:], acks)]

    monkeypatch.setattr(BatchTransaction, "commit_position", committed_late)
    monkeypatch.setattr(BatchTransaction, "_send", sent_in_two)


def assert_copied(batches: BatchPath) -> None:
    """Each record once and in order, and no transaction that was left open."""
    oracle.compare(oracle.read(batches.source, batches.topic), oracle.read(batches.target, batches.remote))
    assert not oracle.hanging(batches.target, batches.remote)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("place", ["position", "produce"])
def test_a_login_is_renewed_in_a_transaction(
    place: str, busy: bool, batches: BatchPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the connections that the transaction has, which go on, whether or not others use them at that moment."""
    logins = Logins(monkeypatch, "backup")

    async def ask(_: BatchTransaction) -> None:
        if busy:
            await asyncio.gather(*(each.send(metadata([])) for each in logins.open for _ in range(20)))

    held, open_at_the_end = Held(ask), set[Connection]()
    hold(held, place, monkeypatch)

    def copied() -> bool:
        open_at_the_end.update(logins.open)
        return batches.copied == RECORDS

    batches.run(copied)
    assert held.over and not batches.failures and not batches.left
    assert len(logins.renewed) >= (3 if busy else 1), "of the coordinators, and of the leader"
    assert open_at_the_end == set(logins.done), "the broker has closed none"
    assert_copied(batches)


def test_a_password_that_changes_in_a_transaction(batches: BatchPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections that are open log in again with the new one, and the transaction goes on."""
    logins, changed = Logins(monkeypatch, "backup"), list[BatchTransaction]()

    async def change(transaction: BatchTransaction) -> None:
        if not changed:
            changed.append(transaction)
            await asyncio.to_thread(credentials.allow, batches.target, USER, NEW_PASSWORD)
            how = access({**batches.logins["backup"], "sasl.password": NEW_PASSWORD})
            transaction._target.renew(replace(how, cluster="backup"))  # as BatchLoop does it for a file

    hold(Held(change), "position", monkeypatch)
    try:
        batches.run(lambda: batches.copied == RECORDS)
    finally:
        credentials.allow(batches.target, USER)
    assert changed and logins.renewed and not batches.failures and not batches.left
    assert_copied(batches)


def test_a_login_that_is_refused_in_a_transaction_discards_it(
    batches: BatchPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the user has its password again. What was written of the transaction is never seen."""
    workers = ThreadPoolExecutor(1)
    revoked = list[Future[None]]()
    seen = list[oracle.Records]()

    async def revoke(_: BatchTransaction) -> None:
        if not revoked:
            revoked.append(workers.submit(credentials.expire, batches.target, USER))
            await asyncio.wrap_future(revoked[0])

    held = Held(revoke)
    hold(held, "position", monkeypatch)

    def mend() -> None:
        seen.append(oracle.read(batches.target, batches.remote))
        credentials.allow(batches.target, USER)

    def copied() -> bool:
        if len(revoked) == 1 and any("refuses the login" in each for each in batches.failures):
            revoked.append(workers.submit(mend))
        return batches.copied == RECORDS

    try:
        batches.run(copied)
        for each in revoked:
            each.result(PATIENCE)
    finally:
        credentials.allow(batches.target, USER)
        workers.shutdown()
    assert held.over and not batches.left
    assert any("of backup refuses the login: " in each for each in batches.failures), batches.failures
    assert seen == [{0: []}], "nothing was committed without the login"
    assert oracle.count(oracle.read(batches.target, batches.remote, "read_uncommitted")) > RECORDS, "it was aborted"
    assert_copied(batches)


def test_requests_that_a_broker_reads_after_the_end_of_a_login(
    batches: BatchPath, secured: tuple[LocalCluster, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the connection, so nobody knows what they have done: the transaction is discarded and made again."""
    cluster, _ = secured
    send, stood = BatchTransaction._send, list[float]()

    async def sent_to_one_that_stands(transaction: BatchTransaction, *rest: Any) -> Any:
        if stood:
            return await send(transaction, *rest)
        cluster.pause()
        stood.append(time.monotonic())
        sending = asyncio.ensure_future(send(transaction, *rest))
        try:
            while time.monotonic() < stood[0] + LASTS / 1000:
                assert not sending.done()
                await asyncio.sleep(0.05)
        finally:
            cluster.resume()
        return await sending

    monkeypatch.setattr(BatchTransaction, "_send", sent_to_one_that_stands)
    batches.run(lambda: batches.copied == RECORDS)
    assert stood and not batches.left
    assert any("closes the connection" in each for each in batches.failures), batches.failures
    assert_copied(batches)


@pytest.mark.parametrize("refusing", ["source", "target"])
def test_a_service_says_who_refuses_and_goes_on(
    refusing: str,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    secured: tuple[LocalCluster, str],
    failpoints: Failpoints,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The password is taken away while a transaction is open, and its login ends. Then it is given back."""
    cluster, address = secured
    source, target = (cluster, target_cluster) if refusing == "source" else (source_cluster, cluster)
    pair = Pair(source.bootstrap, target.bootstrap, f"r{uuid.uuid4().hex[:6]}", prefix).by(AUTO)
    alias = pair.alias if refusing == "source" else "backup"
    settings, topic = pair.settings(), pair.topic("t")
    settings["clusters"][alias] = shown(address)
    pair.produce(topic, Made(None, b"before"))
    with Service(settings, tmp_path, failpoints.environment) as service:
        pair.await_same(topic)
        failpoints.arm("SIGSTOP", "after-produce")
        pair.produce(topic, *(mixed(number) for number in range(RECORDS)), batch_num_messages=BATCH)
        worker = failpoints.wait("after-produce")
        try:
            ended = time.monotonic() + LASTS / 1000
            credentials.expire(cluster.bootstrap, USER)
            until("its login has ended", lambda: time.monotonic() > ended)
        finally:
            os.kill(worker, signal.SIGCONT)
        try:
            service.wait_for("who refuses is said", lambda: says_who_refuses(service, alias))
        finally:
            credentials.allow(cluster.bootstrap, USER)
        pair.await_same(topic)
        pair.produce(topic, *(mixed(number) for number in range(RECORDS)), batch_num_messages=BATCH)
        pair.await_same(topic)
        assert path(service, topic) == "batches" and not service.find(TAKES_RECORDS, topic=topic)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
    pair.assert_settled(topic)


def says_who_refuses(service: Service, alias: str) -> bool:
    said = service.get("/readyz")[1]
    return alias in said and "uthentication" in said


def path(service: Service, topic: str) -> str:
    """By which path the only partition of a topic is copied."""
    (flow,) = json.loads(service.get("/status")[1])["flows"]
    ((partition,),) = [each["partitions"] for each in flow["topics"] if each["topic"] == topic]
    return str(partition["path"])
