"""Two services for one flow: the later one leads, the earlier one stops by itself."""

from __future__ import annotations

import itertools
import json
import time
from functools import partial
from pathlib import Path

import pytest
import yaml

from mirror.config.load import load
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import ControlWriter
from mirror.control.flow_leader import FlowLeader
from mirror.control.signs import SIGN_KEY
from mirror.service.life_signs import sign_of
from mirror.service.topic_monitor import TopicMonitor
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.together import together
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.long

SETTLED = 10.0  # seconds without another change


def plans(pair: Pair) -> list[tuple[str, int]]:
    """Leader and generation of every plan that was ever written."""
    records = oracle.read(pair.target, f"mirror-control.{pair.alias}.internal")[0]
    decoded = [json.loads(record.value) for record in records if record.key == b"plan" and record.value]
    return [(plan["leader"], plan["generation"]) for plan in decoded]


def test_one_of_two_services_leads(pair: Pair, tmp_path: Path) -> None:
    together(
        partial(a_second_service_takes_over, pair.other("later"), tmp_path),
        partial(leadership_is_settled_when_both_start_at_once, pair.other("raced"), tmp_path),
    )


def a_second_service_takes_over(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("led", 4)
    with Load(pair.source, {topic: 4}, rate=200) as load, pair.service(tmp_path) as first:
        first.wait_for("records copied", lambda: first.metric("mirror_source_records_total") > 200)
        (leader,) = {leader for leader, _ in plans(pair)}
        with pair.service(tmp_path) as second:
            assert first.wait(PATIENCE) == 3, first.tail()
            assert [line for line in first.noise if "another service leads it now" in line] == first.noise
            second.wait_for("records copied", lambda: second.metric("mirror_source_records_total") > 200)

            until_settled = time.monotonic() + SETTLED
            second.wait_for("it still leads", lambda: time.monotonic() > until_settled)
            found = plans(pair)
            assert [leader for leader, _ in itertools.groupby(leader for leader, _ in found)] == [leader, found[-1][0]]
            assert [generation for _, generation in found] == [*range(1, len(found) + 1)]
            assert second.metric("mirror_flow_leader") == 1

            load.stop()
            pair.await_same(topic)
            assert second.terminate() == 0, second.tail()
            assert not second.noise
    pair.assert_settled(topic)


def leadership_is_settled_when_both_start_at_once(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("raced", 2)
    with Load(pair.source, {topic: 2}, rate=200) as load, pair.service(tmp_path) as one, pair.service(tmp_path) as two:
        ended = until("one gives up", lambda: [s for s in (one, two) if s.exit_code is not None])
        assert [service.exit_code for service in ended] == [3], ended[0].tail()
        (winner,) = {one, two} - set(ended)
        winner.wait_for("records copied", lambda: winner.metric("mirror_source_records_total") > 200)
        load.stop()
        pair.await_same(topic)
        assert winner.terminate() == 0, winner.tail()
    pair.assert_settled(topic)


def test_a_leader_that_dies_in_a_transaction_hides_no_claim_for_long(pair: Pair, tmp_path: Path) -> None:
    """A standby claims, and has to read its claim back. The broker looks every ten seconds.

    That this is soon enough follows from mirror/timing.py (tests/unit/test_timing.py).
    """
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    flow = load(file, {}).flows[0]
    TopicMonitor(flow).ensure_internal_topics()
    leader, reader = FlowLeader(flow, "dies"), ControlReader(flow)
    leader.take_lead()
    assert leader._producer is not None
    leader._producer.begin_transaction()
    leader._producer.produce(flow.control_topic, b"", b"unfinished", 0)
    assert not leader._producer.flush(PATIENCE)
    began, claim = time.monotonic(), sign_of("claims")
    ControlWriter(flow).write({SIGN_KEY: claim})

    def is_read() -> bool:
        reader.read_to_end()
        return reader.signs.first == claim

    assert not is_read(), "it stands behind what is not finished"
    until("the claim is read", is_read, timeout=60.0)  # with a task's time-out it would be sixty and up to ten more
    print(f"read after {time.monotonic() - began:.0f} s")
    reader.close()
    leader.control.close()
