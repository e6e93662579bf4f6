"""Two services for one flow: the later one leads, the earlier one stops by itself."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest

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
        (alone,) = plans(pair)
        with pair.service(tmp_path) as second:
            assert first.wait(PATIENCE) == 3, first.tail()
            assert [line for line in first.noise if "another service leads it now" in line] == first.noise
            second.wait_for("records copied", lambda: second.metric("mirror_source_records_total") > 200)

            until_settled = time.monotonic() + SETTLED
            second.wait_for("it still leads", lambda: time.monotonic() > until_settled)
            (before, after) = plans(pair)
            assert before == alone and after[0] != alone[0] and after[1] == alone[1] + 1
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
