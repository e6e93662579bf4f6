"""The contract with librdkafka's words: the installed library says what mirror reads out of it.

A new version fails the first test. Run this module and the integration tests with it, then add it to CHECKED.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from mirror.kafka.librdkafka_log import (
    CHECKED,
    NOT_CREATED,
    UNKNOWN_PROPERTY,
    LogCall,
    api_version,
    changed_topic,
    is_connection_fault,
    truncated_at,
    unchecked,
    why_not_created,
    without_elapsed_time,
)

PATIENCE = 30.0  # seconds


class Calls(list[LogCall]):
    """A client's logger that keeps all that it is given."""

    def log(self, level: int, text: str, *args: object) -> None:
        assert isinstance(level, int) and text.count("%s") == len(args)
        self.append(args)


def until(client: Any, met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < deadline, "librdkafka has not said it"
        client.poll(0.05)


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """The address of something that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_the_installed_version_is_a_checked_one() -> None:
    assert confluent_kafka.libversion()[0] in CHECKED


def test_an_unchecked_version_is_reported_with_what_to_do() -> None:
    found = unchecked("2.99.0")
    assert found is not None
    said, remedy = found
    assert "librdkafka 2.99.0" in said and remedy.endswith(f"with librdkafka {max(CHECKED)}")
    assert not unchecked(max(CHECKED))


def test_a_topic_that_gets_an_id_and_the_versions_of_a_broker() -> None:
    calls = Calls()
    # A broker inside of librdkafka: its lines are those that any broker's answer leads to.
    brokers = {"test.mock.num.brokers": 1, "allow.auto.create.topics": True}
    consumer = Consumer({**brokers, "group.id": "g", "debug": "metadata,feature", "log_level": 7}, logger=calls)
    consumer.assign([TopicPartition("orders", 0, 0)])
    until(consumer, lambda: any(map(changed_topic, calls)))
    consumer.close()
    (topic, topic_id), *_ = filter(None, map(changed_topic, calls))
    assert topic == "orders" and re.fullmatch(r"[A-Za-z0-9+/]{22}", topic_id)
    versions = dict(filter(None, (api_version(str(call[-1])) for call in calls)))
    assert versions[0] >= 7 and versions[1] >= 11 and 3 in versions  # Produce, Fetch, Metadata


def test_other_lines_are_about_no_topic_and_no_version() -> None:
    assert changed_topic(()) is None
    assert changed_topic(("METADATA", "rdkafka#consumer-1", "Topic orders has 3 partitions")) is None
    assert changed_topic(("FAIL", "rdkafka#consumer-1", "Topic orders changed id from A to B")) is None
    assert api_version("Updated enabled protocol features to ApiVersion") is None
    assert not is_connection_fault(())
    assert not is_connection_fault(("METADATA", "rdkafka#producer-1", "FAIL"))


def test_a_refused_connection_is_a_fault(closed_port: str) -> None:
    calls, errors = Calls(), list[KafkaError]()
    config = {"bootstrap.servers": closed_port, "log_level": 6, "log.connection.close": True, "error_cb": errors.append}
    until(producer := Producer(config, logger=calls), lambda: any(map(is_connection_fault, calls)) and len(errors) > 0)
    del producer
    reason = next(error.str() for error in errors if error.code() == KafkaError._TRANSPORT)
    assert re.search(r"Connection refused \(after \d+ms", reason)
    assert without_elapsed_time(reason).endswith("failed: Connection refused")


def test_a_request_without_an_answer_is_a_fault(silent_broker: str) -> None:
    calls = Calls()
    times = {"socket.timeout.ms": 1000, "api.version.request.timeout.ms": 100}
    producer = Producer({"bootstrap.servers": silent_broker, "log_level": 6, **times}, logger=calls)
    until(producer, lambda: any(call[0] == "REQTMOUT" for call in calls))
    assert all(map(is_connection_fault, calls))


def test_a_cut_log() -> None:
    """No broker is needed to see that the library still has the sentence; an integration test cuts a log."""
    (sentence,) = re.findall(rb"Partition log truncation detected at [^\0]*", library().read_bytes())
    words = re.sub(r"%s", "offset 12 (leader epoch 3)", sentence.decode(), count=1)
    assert truncated_at(re.sub(r"%l?d", "7", words)) == 7
    assert truncated_at("Offset out of range") is None


def library() -> Path:
    """The file of the librdkafka that this process has loaded."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return Path(next(line.split()[-1] for line in maps if "librdkafka" in line.rsplit("/", 1)[-1]))


@pytest.mark.parametrize(
    ("properties", "begins"),
    [
        ({"no.such.property": "1"}, UNKNOWN_PROPERTY),
        ({"bootstrap.servers": "a:9092", "enable.idempotence": "true", "acks": "1"}, NOT_CREATED),
    ],
)
def test_refused_properties(properties: dict[str, Any], begins: str) -> None:
    with pytest.raises(KafkaException) as raised:
        Producer(properties)
    assert raised.value.args[0].str().startswith(begins)


def test_why_a_client_is_not_created() -> None:
    with pytest.raises(KafkaException) as raised:
        Producer({"bootstrap.servers": "a:9092", "enable.idempotence": "true", "acks": "1"})
    assert why_not_created(raised.value.args[0].str()).startswith("`acks` must be")
