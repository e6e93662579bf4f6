"""Properties of clients that mirror relies on."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from mirror.config.load import load
from mirror.errors import ClusterAway
from mirror.kafka import clients, producers
from mirror.kafka.overridden import overridden
from mirror.kafka.producers import ALIASES, transactional_properties
from mirror.kafka.throttling import Throttle
from mirror.settings import Cluster, Flow
from tests.harness.configuration import one_flow


def test_no_producer_makes_brokers_create_topics(tmp_path: Path) -> None:
    """A broker would create a deleted topic of mirror's own with its defaults, which do not compact it."""
    settings = one_flow("source:9092", "target:9092", ["t"], alias="primary")
    settings["clusters"]["backup"]["producer"] = {"allow.auto.create.topics": True}
    flow = loaded(tmp_path, settings)
    for properties in (producers.transactional_properties(flow, "id"), producers.idempotent_properties(flow)):
        assert properties["allow.auto.create.topics"] is False
    assert any("allow.auto.create.topics is ignored" in line for line in overridden(flow))


def test_what_has_no_effect_is_told_by_the_name_that_the_user_has_written(tmp_path: Path) -> None:
    settings = one_flow("source:9092", "target:9092", ["t"], alias="primary")
    settings["clusters"]["backup"]["producer"] = {"request.required.acks": 1, "delivery.timeout.ms": 900_000}
    lines = overridden(loaded(tmp_path, settings))
    assert "clusters.backup: request.required.acks is ignored for the producer: exactly-once needs all" in lines
    assert any("delivery.timeout.ms is ignored for the producer" in line for line in lines)


def test_another_name_of_a_fixed_property_does_not_win(tmp_path: Path) -> None:
    """Of two names librdkafka takes the last one, and refuses `acks: 1` with transactions."""
    settings = one_flow("source:9092", "127.0.0.1:1", ["t"], alias="primary")
    settings["clusters"]["backup"]["producer"] = {"request.required.acks": 1, "delivery.timeout.ms": 900_000}
    properties = transactional_properties(loaded(tmp_path, settings), "id")
    assert not ALIASES.keys() & properties.keys()
    Producer(properties)


@pytest.mark.parametrize("kind", ["source", "internal"])
def test_a_consumer_does_not_storm_a_cluster_that_is_away(tmp_path: Path, kind: str) -> None:
    """librdkafka's own back-off does not hold there: with its default this takes half a second."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        between = (address, "target:9092") if kind == "source" else ("source:9092", address)
        flow = loaded(tmp_path, one_flow(*between, ["t"], alias="primary"))
        stopping = threading.Event()
        with closing(consumer(kind, flow)) as polled:
            poller = threading.Thread(target=poll, args=(polled, stopping))
            poller.start()
            listener.settimeout(30)
            began = time.monotonic()
            for _ in range(10):
                listener.accept()[0].close()
            took = time.monotonic() - began
            stopping.set()
            poller.join()
    assert took > 0.9, "at most ten times a second"


def test_an_admin_client_keeps_a_connection_no_longer_than_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka would keep one that is cut for a minute, and try to set one up for half a minute."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(clients, "AdminClient", lambda config, **_: made.update(config))
    cluster = Cluster("primary", {"bootstrap.servers": "source:9092", "socket.timeout.ms": "90000"}, {}, {})
    clients.admin(cluster)
    assert made["socket.timeout.ms"] == "90000", "without patience the user's property holds"
    clients.admin(cluster, patience=2.5)
    assert made["socket.timeout.ms"] == made["socket.connection.setup.timeout.ms"] == 2_500


@pytest.mark.parametrize("section", ["cluster", "consumer"])
def test_a_longest_back_off_of_the_users_own_holds_for_consumers(tmp_path: Path, section: str) -> None:
    """librdkafka makes no client whose back-off is longer than that."""
    settings = one_flow("source:9092", "target:9092", ["t"], alias="primary")
    cluster = settings["clusters"]["primary"]
    (cluster if section == "cluster" else cluster.setdefault("consumer", {}))["reconnect.backoff.max.ms"] = 100
    consumer("source", loaded(tmp_path, settings)).close()


@pytest.mark.parametrize("make", [clients.admin, lambda cluster: clients.internal_consumer(cluster, "group")])
def test_a_certificate_that_is_not_the_one_of_its_key_yet_is_a_cluster_that_is_away(
    tmp_path: Path, make: Callable[[Cluster], object]
) -> None:
    """The service tries again. Another error would count as a defect, and end it."""
    (tmp_path / "key").write_text("half of it")
    tls = {"security.protocol": "ssl", "ssl.key.location": str(tmp_path / "key")}
    with pytest.raises(ClusterAway, match=r"cluster primary does not answer: no .* can be made: "):
        make(Cluster("primary", {"bootstrap.servers": "127.0.0.1:1", **tls}, {}, {}))


def loaded(directory: Path, settings: dict[str, Any]) -> Flow:
    file = directory / "mirror.yaml"
    file.write_text(yaml.safe_dump(settings))
    return load(file).flows[0]


def consumer(kind: str, flow: Flow) -> Consumer:
    if kind == "source":
        return clients.source_consumer(flow, logging.getLogger("tests.librdkafka"), Throttle())
    return clients.internal_consumer(flow.target, "group")


def poll(consumer: Consumer, stopping: threading.Event) -> None:
    while not stopping.is_set():
        consumer.poll(0.1)
