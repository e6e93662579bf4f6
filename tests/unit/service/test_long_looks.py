"""A look at thousands of topics takes many requests. Each shows that the flow lives, and the last one before a stop."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic

from mirror.kafka import clients
from mirror.kafka.cluster import NAMES, RECORDS, ClusterAdmin
from mirror.service import flow as module
from mirror.service.flow import FlowRunner
from mirror.service.status_follower import StatusFollower
from mirror.service.topic_monitor import TopicMonitor
from mirror.settings import Flow
from tests.unit.control.test_control_reader import flow  # noqa: F401

REQUESTS = 3


class Client:
    """An admin client of a cluster that refuses nothing."""

    def __init__(self) -> None:
        self.requests = 0

    def create_topics(self, _: list[NewTopic], **__: float) -> dict[str, Future[None]]:
        self.requests += 1
        return {}

    create_partitions = describe_topics = describe_configs = create_topics


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()
    monkeypatch.setattr(clients, "admin", lambda *_: client)
    monkeypatch.setattr("mirror.kafka.cluster.refresh_metadata", lambda *_: None)
    return client


def ask(admin: ClusterAdmin, what: str) -> None:
    names = [f"t{number}" for number in range(REQUESTS * NAMES)]
    if what == "create_topics":
        admin.create_topics(NewTopic(name, RECORDS - 1) for name in names[:REQUESTS])
    elif what == "create_partitions":
        admin.create_partitions(NewPartitions(name, RECORDS) for name in names[:REQUESTS])
    else:
        getattr(admin, what)(names)


@pytest.mark.parametrize("what", ["create_topics", "create_partitions", "topic_ids", "ids_now", "topic_configs"])
def test_each_request_is_progress_and_none_follows_one_that_was_the_last(
    flow: Flow,  # noqa: F811
    client: Client,
    what: str,
) -> None:
    seen: list[int] = []
    ask(ClusterAdmin(flow.target, lambda: seen.append(client.requests)), what)
    assert seen == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        ask(ClusterAdmin(flow.target, lambda: 1 // 0), what)
    assert client.requests == REQUESTS + 1


def test_topics_that_grow_are_progress(flow: Flow, client: Client) -> None:  # noqa: F811
    seen: list[int] = []
    monitor = TopicMonitor(flow, lambda: seen.append(client.requests))
    counts = {f"t{number}": RECORDS for number in range(REQUESTS)}
    assert monitor._make(counts, {f"primary.{name}": 1 for name in counts}) == counts
    assert seen == [1, 2, 3]


def test_a_stop_ends_a_look(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Otherwise the tasks are told to stop when it is too late, and are killed."""
    stopping, asked = threading.Event(), threading.Event()

    class Monitor:
        def __init__(self, _: Flow, on_progress: Any) -> None:
            self._on_progress = on_progress

        def ensure_internal_topics(self) -> None:
            asked.set()
            stopping.wait(10)
            while True:
                self._on_progress()

    monkeypatch.setattr(module, "TopicMonitor", Monitor)
    monkeypatch.setattr(StatusFollower, "follow", lambda _: None)
    runner = FlowRunner(flow, "info", 1, "us", Future(), stopping)
    before = runner.status.problem
    runner.start()
    assert asked.wait(10)
    stopping.set()
    runner.join(10)
    assert not runner.is_alive()
    assert runner.failure is None and runner.status.problem == before, "that it stops is no problem"
