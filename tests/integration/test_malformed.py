"""What is no report, on the status topic of a running service: everybody goes on without it."""

from __future__ import annotations

import json
from typing import Any

from mirror.text import BUG
from tests.harness import oracle
from tests.harness.command import answer, mirror
from tests.harness.load import Made, produce
from tests.harness.pair import Pair
from tests.harness.service import Service

IGNORED = "report that can't be decoded is ignored"
WRONG: list[dict[str, Any]] = [
    {"position": "many"},
    {"lag": "4", "behind_since": "now"},
    {"last_commit": 1e300},
    {"reason": ["no text"]},
    {"partition": ["no topic", -1]},
    {"counters": {"records": "many"}},
    {"counters": {"latency_buckets": [1]}},
    {"counters": {"transactions": {"committed": float("inf")}}},
]


def test_a_service_goes_on_without_reports_that_are_none(shared: Pair, shared_service: Service) -> None:
    topic = shared.topic("figures")
    shared.produce(topic, Made(None, b"before"))
    shared.await_same(topic)
    shown = {"topic": topic, "partition": "0"}
    shared_service.wait_for("reported", lambda: shared_service.metric("mirror_source_records_total", **shown) == 1)
    good = newest(shared, topic)
    ignored = shared_service.metric("mirror_ignored_reports_total")
    bad = [json.dumps({**good, **wrong}).encode() for wrong in WRONG]
    bad += [b"no json", b"[" * 100_000, b'{"a":' * 100_000, b"", b"\xff"]
    produce(shared.target, status_topic(shared), [Made(f"{topic}/0".encode(), value) for value in bad])
    shared_service.wait_for(
        "all ignored", lambda: shared_service.metric("mirror_ignored_reports_total") == ignored + len(bad)
    )
    assert {event["topic"] for event in shared_service.find(IGNORED)} == {status_topic(shared)}
    shared.produce(topic, Made(None, b"after"))
    shared.await_same(topic)
    shared_service.wait_for("counted", lambda: shared_service.metric("mirror_source_records_total", **shown) == 2)
    (flow,) = json.loads(shared_service.get("/status")[1])["flows"]
    assert flow["state"] == "running" and shared_service.get("/")[0] == 200
    assert not shared_service.find(BUG)
    produce(shared.target, status_topic(shared), [Made(f"{topic}/0".encode(), value) for value in bad])
    ended = mirror("status", "-c", shared_service.file)
    assert ended.returncode == 0 and IGNORED in ended.stderr and "Traceback" not in ended.stderr, ended
    (view,) = answer("status", "-c", shared_service.file)["flows"]
    assert [p["state"] for p in view["partitions"] if p["topic"] == topic] == ["running"]


def status_topic(shared: Pair) -> str:
    return f"mirror-status.{shared.alias}.internal"


def newest(shared: Pair, topic: str) -> dict[str, Any]:
    """The newest report of the topic's only partition."""
    found = oracle.read(shared.target, status_topic(shared))[0]
    report: dict[str, Any] = json.loads([r.value for r in found if r.key == f"{topic}/0".encode()][-1] or b"")
    return report
