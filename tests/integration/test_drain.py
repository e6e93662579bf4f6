"""Ending in order under load."""

from __future__ import annotations

import re
import signal
from datetime import datetime
from pathlib import Path

import pytest

from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service

pytestmark = pytest.mark.long

DRAIN = 10.0  # seconds, the default of drain_timeout
UNCLEAN = re.compile(r"Traceback|Exception|at org\.apache|at java\.|Error:")


def drain_time(service: Service) -> float:
    """Seconds between "stopping" and "stopped", Spark's end included."""
    (begun,), (ended,) = service.find("stopping"), service.find("stopped", drained="true")
    moments = [datetime.fromisoformat(event["ts"].replace("Z", "+00:00")) for event in (begun, ended)]
    return (moments[1] - moments[0]).total_seconds()


def await_copying(service: Service) -> None:
    service.wait_for("records copied", lambda: service.metric("mirror_source_records_total") > 400)


def end(service: Service, how: signal.Signals) -> None:
    assert service.terminate(how) == 0, service.tail()
    assert not [line for line in service.lines if UNCLEAN.search(line)], service.tail()
    assert not service.noise
    took = drain_time(service)
    assert took < DRAIN, f"{took:.1f} s"


def test_a_drain_under_load_leaves_nothing_open_and_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("drained", 4)
    counts = []
    with Load(pair.source, {topic: 4}, rate=200) as load:
        for how in (signal.SIGTERM, signal.SIGINT):
            with pair.service(tmp_path) as service:
                await_copying(service)
                end(service, how)
            assert not oracle.hanging(pair.target, pair.remote(topic)), how
            counts.append(oracle.count(pair.copied(topic)))
            load.wait_for(load.counts.total + 100)
        load.stop()
    assert 0 < counts[0] < counts[1]
    with pair.service(tmp_path) as service:
        pair.await_same(topic)
        # Idle partitions drain too.
        end(service, signal.SIGTERM)
    pair.assert_settled(topic)
