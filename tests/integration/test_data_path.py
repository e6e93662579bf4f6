"""`data_path: auto`: partitions are copied in whole batches where that can be done, and record by record elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import topics
from tests.harness.command import answer
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service

pytestmark = pytest.mark.slow

AUTO = {"data_path": "auto"}
MOVES = {"batches": "partition takes the batch path", "records": "partition takes the record path"}


def partition(service: Service, topic: str, number: int = 0) -> dict[str, Any]:
    """What the service says of a partition; empty if it says nothing yet."""
    (flow,) = json.loads(service.get("/status")[1])["flows"]
    found = [each for each in flow["topics"] if each["topic"] == topic]
    return next((each for each in found[0]["partitions"] if each["partition"] == number), {}) if found else {}


def await_path(service: Service, topic: str, name: str, number: int = 0) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = partition(service, topic, number)
        return found if found.get("path") == name and found["state"] == "running" else None

    found = service.wait_for(f"{topic} by {name}", there)
    assert found is not None
    return found


def test_whole_batches_are_copied_and_what_does_not_fit_goes_record_by_record(pair: Pair, tmp_path: Path) -> None:
    """There and back, while records come: each hand-over is a take-over as any other."""
    topic = pair.topic("t", 2)
    with (
        Load(pair.source, {topic: 2}, rate=500, transaction=20, abort_every=3) as running,
        pair.service(tmp_path, AUTO) as service,
    ):
        for number in (0, 1):
            assert not await_path(service, topic, "batches", number)["path_reason"]
        running.wait_for(running.counts.total + 500)
        topics.configure(pair.source, topic, message_timestamp_type="LogAppendTime")
        left = await_path(service, topic, "records")
        assert left["path_reason"] == "log_append_time" and left["path_since"] > 0
        view = answer("status", "-c", service.file)["flows"][0]["partitions"]
        assert {each["path"] for each in view} <= {"records", "batches"}
        running.wait_for(running.counts.total + 500)
        topics.configure(pair.source, topic, message_timestamp_type="CreateTime")
        await_path(service, topic, "batches")
        assert service.find(MOVES["batches"], topic=topic, partition=0)
        running.stop()
        pair.await_same(topic)
        pair.assert_settled(topic)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()
