"""What the service knows of a cluster while its only broker starts, and while packets to it get lost."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.service import cluster_watch
from mirror.service.cluster_watch import ClusterWatch
from mirror.settings import Cluster
from tests.harness.fake_broker import METADATA, FakeBroker, metadata, string
from tests.harness.waiting import PATIENCE, until

LEADER_NOT_AVAILABLE = 5


class StartingBroker(FakeBroker):
    """While `starts` is set it says that the cluster has no brokers, as one does that has just started."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = False
        self.said_none = 0
        self.answers = self._answer

    @property
    def cluster(self) -> Cluster:
        """The cluster that it is."""
        return Cluster("one", self.properties, {}, {})

    def _answer(self, api: int, body: bytes) -> bytes:
        if api != METADATA:
            return b""
        if not self.starts:
            return metadata("a", 1, {1: self.port})
        self.said_none += 1
        nobody = bytes(4) + struct.pack(">i", 0) + string("id") + struct.pack(">i", -1)
        (topics,) = struct.unpack_from(">i", body)
        if topics == 0:  # only the brokers are asked for
            return nobody + struct.pack(">i", 0) + bytes(4)
        return nobody + struct.pack(">ih", 1, LEADER_NOT_AVAILABLE) + string("a") + bytes(1 + 4 + 4 + 4)


@pytest.fixture
def broker() -> Iterator[StartingBroker]:
    found = StartingBroker()
    with found:
        yield found


def test_a_cluster_without_brokers_ends_no_process(broker: StartingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka (2.16) aborts if it describes such a cluster."""
    monkeypatch.setattr(cluster_watch, "LOOK_INTERVAL", 0.05)
    monkeypatch.setattr(cluster_watch, "LOGIN_INTERVAL", 0.5)
    monkeypatch.setattr(cluster_watch, "TIMEOUT", 1.0)
    stopping = threading.Event()
    watch = ClusterWatch(broker.cluster, stopping)
    watch.start()
    try:
        until("an answer", lambda: watch.status.reachable)
        broker.starts = True
        until("it has no brokers", lambda: broker.said_none >= 3)
        broker.starts = False
        began = broker.count(METADATA)
        until("an answer again", lambda: watch.status.reachable and broker.count(METADATA) > began)
    finally:
        stopping.set()
        watch.join(PATIENCE)
    assert not watch.is_alive()


def test_a_password_that_a_broker_repeats_is_in_neither_status_nor_log(caplog: pytest.LogCaptureFixture) -> None:
    watch = ClusterWatch(Cluster("one", {"sasl.password": "hunter2"}, {}, {}), threading.Event())
    error = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: hunter2 is wrong (after 7ms)")

    class Refused:
        def list_topics(self, timeout: float) -> None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def poll(self, timeout: float) -> None:
            watch._on_error(error)

    client: Any = Refused()
    with caplog.at_level(logging.WARNING):
        watch._look(client)
    assert watch.status.reason == "Local: Authentication failure"
    assert [vars(each)["reason"] for each in caplog.records] == ["Local: Authentication failure"]


class CutOffBroker(FakeBroker):
    """While `is_cut` is set no packet passes. A connection that was used meanwhile is dead for good.

    TCP would repeat what was lost, but only after about as long as the cut has lasted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_cut = False
        self.refused = 0  # connections that were made in vain
        self._connection = threading.local()  # each one has a thread of its own
        self.answers = self._answer

    def _answer(self, api: int, _: bytes) -> bytes:
        self._connection.dead = self.is_cut or getattr(self._connection, "dead", False)
        return b"" if self._connection.dead or api != METADATA else metadata("a", 1, {1: self.port})

    def _serve(self, connection: socket.socket) -> None:
        if not self.is_cut:
            super()._serve(connection)
            return
        self.refused += 1
        with contextlib.suppress(OSError), connection:
            while connection.recv(2**16):
                pass


def test_a_cluster_is_seen_again_soon_after_packets_were_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a flow leader would give no signs of life for so long that a standby took over."""
    monkeypatch.setattr(cluster_watch, "LOOK_INTERVAL", 0.05)
    monkeypatch.setattr(cluster_watch, "TIMEOUT", 1.0)
    stopping = threading.Event()
    with CutOffBroker() as broker:
        watch = ClusterWatch(Cluster("one", broker.properties | {"reconnect.backoff.max.ms": "100"}, {}, {}), stopping)
        watch.start()
        try:
            until("an answer", lambda: watch.status.reachable)
            broker.is_cut = True
            until("no answer", lambda: watch.status.reachable is False)
            until("the connection is given up, which librdkafka does after a minute", lambda: broker.refused, 20)
            broker.is_cut = False
            until("so is a new one in its set-up", lambda: watch.status.reachable)
        finally:
            stopping.set()
            watch.join(PATIENCE)
    assert not watch.is_alive()
