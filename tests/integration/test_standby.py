"""Two services in two zones: one leads, the other one stands by, and takes over when the first one is gone.

One of them reaches the target through a proxy, so that its network alone can be cut.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.proxy import Proxy
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.waiting]

ALIAS = "zones"
WAIT = ("--standby", "--standby-after", "10")  # the least
TAKES_OVER = "no living service, the standby takes over"
FLOW = f"{ALIAS}->backup"


class Zones:
    """A target that one service reaches directly, and the other one through a proxy."""

    def __init__(self, source: LocalCluster, directory: Path) -> None:
        self.target = LocalCluster("zones", directory)
        self.proxy = Proxy(self.target)
        self.near = Pair(source.bootstrap, self.target.bootstrap, ALIAS, f"{ALIAS}-")
        self._far = Pair(source.bootstrap, self.proxy.bootstrap, ALIAS, f"{ALIAS}-")
        self._directory = directory

    def direct(self) -> Service:
        """A service beside the target, not started yet."""
        return Service(self.near.settings(), self._directory, arguments=WAIT)

    def through(self) -> Service:
        """A service whose way to the target the proxy can cut."""
        return Service(self._far.settings(), self._directory, arguments=WAIT)

    def cut(self) -> None:
        """Cut the way through the proxy."""
        self.proxy.cut = True
        self.proxy.disconnect()

    def signs(self) -> int:
        """How many signs of life the living service has given so far."""
        records = oracle.read(self.target.bootstrap, f"mirror-control.{ALIAS}.internal")[0]
        return sum(record.key == b"alive" for record in records)

    def leaders(self) -> list[str]:
        """Who published a plan, in this order, each service once."""
        records = oracle.read(self.target.bootstrap, f"mirror-control.{ALIAS}.internal")[0]
        return list(dict.fromkeys(json.loads(r.value)["leader"] for r in records if r.key == b"plan" and r.value))


def copies(service: Service) -> None:
    """Wait until it copies by itself, and says that it is ready."""
    service.wait_for("records copied", lambda: service.metric("mirror_source_records_total") > 100)
    service.wait_for("ready", lambda: service.get("/readyz") == (200, "ok\n"))
    assert service.metric("mirror_flow_leader") == 1


def waits(service: Service) -> None:
    """Wait until it stands by, hears the leader, and could take over: it is ready, and says for whom it waits."""
    service.wait_for("it stands by", lambda: service.get("/readyz") == (200, "ok: standby\n"))
    service.wait_for("it has heard", lambda: "the last sign of life is from" in service.get("/status")[1])
    assert service.metric("mirror_flow_state", state="standby") == 1
    assert "This service stands by" in service.get("/")[1]


def test_the_standby_takes_over_and_no_two_take_turns(source_cluster: LocalCluster, tmp_path: Path) -> None:
    zones = Zones(source_cluster, tmp_path)
    with ExitStack() as stack:

        def started(make: Callable[[], Service]) -> Service:
            return stack.enter_context(make())

        stack.enter_context(zones.target)
        stack.enter_context(zones.proxy)
        topic = zones.near.topic("led", 2)
        load = stack.enter_context(Load(zones.near.source, {topic: 2}, rate=200))
        first = started(zones.direct)  # nothing has ever run: it waits, and begins
        copies(first)
        far = started(zones.through)
        waits(far)

        # The standby's own network is cut, for longer than it waits: it does not know, and waits.
        zones.cut()
        far.wait_for("it says that it hears nothing", lambda: far.get("/readyz")[0] == 503)
        before = zones.signs()
        first.wait_for("more signs than it waits for", lambda: zones.signs() >= before + 7)
        zones.proxy.heal()
        waits(far)
        assert not far.find(TAKES_OVER) and len(zones.leaders()) == 1

        first.kill()
        copies(far)
        assert len(far.find(TAKES_OVER, flow=FLOW)) == 1

        near = started(zones.direct)
        waits(near)

        # The leader's network is cut: the standby hears nothing, although the target answers it.
        zones.cut()
        copies(near)
        zones.proxy.heal()
        assert far.wait(PATIENCE) == 3, far.tail()  # and is started again, as an orchestrator does it
        far = started(zones.through)
        waits(far)

        os.kill(near.pid, signal.SIGSTOP)  # its tasks run on: the service is what has to live
        copies(far)
        os.kill(near.pid, signal.SIGCONT)
        assert near.wait(PATIENCE) == 3, near.tail()
        assert len(until("four have led", zones.leaders)) == 4

        last = started(zones.direct)
        waits(last)
        assert last.terminate() == 0, last.tail()  # a standby has nothing to finish
        load.stop()
        zones.near.await_same(topic)
        assert far.terminate() == 0, far.tail()
        zones.near.assert_settled(topic)
        assert len(zones.leaders()) == 4, "they took turns"
