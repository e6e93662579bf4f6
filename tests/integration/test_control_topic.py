"""Records of another version of mirror on the control topic: what its own flow makes of them, and the others."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness import configuration, oracle
from tests.harness.command import answer, mirror
from tests.harness.load import Load, Made, produce
from tests.harness.pair import Pair
from tests.harness.service import FLOW_BLOCKED, Service

pytestmark = pytest.mark.slow

IGNORED = "record that can't be decoded is ignored"
UNHEARD = [
    Made(b"claim/first", b'{"task":"other"}'),
    Made(b"claim/0", b'{"worker":"other"}'),
    Made(b"order/", None),
    Made(b"order/everything", b'{"paused":true}'),
    Made(b"order/*/*", b'{"state":"paused"}'),
    Made(b"decision/", b'{"action":"skip"}'),
]
LATER = [  # by other keys: a line that is equal is not logged again within a minute
    Made(b"claim/second", b'{"task":"other"}'),
    Made(b"claim/1", b'{"worker":"other"}'),
    Made(b"order/", None),
    Made(b"order/anything", b'{"paused":true}'),
    Made(b"order/any/*", b'{"state":"paused"}'),
    Made(b"decision/any", b'{"action":"skip"}'),
]


def control(pair: Pair) -> str:
    return f"mirror-control.{pair.alias}.internal"


def plans(pair: Pair) -> list[dict[str, Any]]:
    """All plans that were ever written."""
    records = oracle.read(pair.target, control(pair))[0]
    return [json.loads(record.value) for record in records if record.key == b"plan" and record.value]


def write(pair: Pair, *records: Made) -> None:
    produce(pair.target, control(pair), list(records))


def write_plan(pair: Pair, plan: dict[str, Any]) -> None:
    write(pair, Made(b"plan", json.dumps(plan).encode()))


def copied(service: Service, topic: str) -> float:
    return service.metric("mirror_source_records_total", topic=topic)


def await_ignored(pair: Pair, service: Service, records: list[Made]) -> None:
    """Wait until the log has told of each of the records. A deleted one needs no word."""
    for record in records:
        if record.value is not None:
            service.wait_for_event(IGNORED, flow=pair.flow, key=(record.key or b"").decode())


def test_a_flow_goes_on_without_what_it_cannot_decode_and_says_so(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("unheard", 2)
    service = pair.service(tmp_path)
    assert not answer("pause", "-c", service.file)["served"]
    write(pair, *UNHEARD)
    ended = mirror("resume", "-c", service.file)
    assert ended.returncode == 0 and IGNORED in ended.stderr and "Traceback" not in ended.stderr
    with Load(pair.source, {topic: 2}, rate=300) as load, service:
        service.wait_for("copied", lambda: copied(service, topic) > 100)
        await_ignored(pair, service, UNHEARD)
        write(pair, *LATER)
        # Another plan of the leader with what a newer version might add: no reason to stop.
        (plan,) = plans(pair)
        more = {name: [*fields, "more"] for name, fields in plan["topics"].items()}
        write_plan(pair, {**plan, "topics": more, "added": True})
        await_ignored(pair, service, LATER)
        before = copied(service, topic)
        service.wait_for("it goes on", lambda: copied(service, topic) > before + 300)
        said = answer("pause", "-c", service.file, "--topic", topic)
        assert (said["served"], said["waiting"]) == (True, [])
        assert answer("resume", "-c", service.file)["waiting"] == []
        load.stop()
        pair.await_same(topic)
        assert answer("status", "-c", service.file)["well"]
        assert service.terminate() == 0, service.tail()
        assert not service.noise
    pair.assert_settled(topic)


def test_a_plan_of_another_version_stops_its_own_flow_until_it_is_gone(pair: Pair, tmp_path: Path) -> None:
    other = replace(pair, alias=f"s{uuid.uuid4().hex[:6]}", prefix=f"other-{pair.prefix}")
    topic, beside = pair.topic("waits"), other.topic("goes-on")
    both = {**configuration.together(pair.settings(), other.settings()), "spark": {"master": "local[4]"}}
    with Service(both, tmp_path) as service:
        pair.produce(topic, Made(None, b"first"))
        pair.await_same(topic)
        (first,) = plans(pair)
        write_plan(pair, {**first, "leader": "newer", "generation": 7, "topics": {topic: {"remote": topic}}})
        service.wait_for("it waits", lambda: any("another version" in e["reason"] for e in service.find(FLOW_BLOCKED)))
        pair.produce(topic, Made(None, b"second"))
        other.produce(beside, Made(None, b"beside"))
        other.await_same(beside)
        views = {view["flow"]: view for view in answer("status", "-c", service.file, code=1)["flows"]}
        assert views[other.flow]["well"] and views[pair.flow]["state"] == "unknown"
        assert "another version" in views[pair.flow]["reason"]
        for command in (("pause",), ("plan",), ("resume", "--skip-lost")):
            ended = mirror(*command, "-c", service.file, "--flow", pair.flow)
            assert (ended.returncode, ended.stdout) == (1, ""), ended
            (line,) = ended.stderr.splitlines()
            assert control(pair) in line and "another version" in line, ended.stderr
        assert oracle.count(pair.copied(topic)) == 1, "it is the other version's to copy now"
        assert service.get("/livez")[0] == 200 and service.get("/readyz")[0] != 200
        assert [plan["generation"] for plan in plans(pair)] == [1, 7], "nothing begins anew"
        write_plan(pair, {**first, "generation": 8})
        pair.await_same(topic)
        service.wait_for_event("flow recovered", flow=pair.flow)
        assert service.terminate() == 0, service.tail()
        assert service.find("stopped", drained="true") and not service.noise
    pair.assert_settled(topic)


def test_a_plan_that_contradicts_itself_is_written_over(pair: Pair, tmp_path: Path) -> None:
    """With a partition in two slices, two tasks would fence each other for ever."""
    topic = pair.topic("twice", 2)
    with Load(pair.source, {topic: 2}, rate=300) as load, pair.service(tmp_path) as service:
        service.wait_for("copied", lambda: copied(service, topic) > 100)
        plan = pair.newest_plan()
        wrong = plan["generation"] + 50
        write_plan(pair, {**plan, "generation": wrong, "slices": [{topic: [0]}, {topic: [0, 1]}]})
        service.wait_for_event(IGNORED, flow=pair.flow, key="plan")
        service.wait_for("written over", lambda: plan["generation"] < pair.newest_plan()["generation"] < wrong)
        before = copied(service, topic)
        service.wait_for("it goes on", lambda: copied(service, topic) > before + 300)
        load.stop()
        pair.await_same(topic)
        assert answer("status", "-c", service.file)["well"]
        assert service.terminate() == 0, service.tail()
        assert not service.find(FLOW_BLOCKED) and not service.noise
    pair.assert_settled(topic)
