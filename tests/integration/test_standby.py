"""Two services in two zones: one leads, the other one stands by, and takes over when the first one is gone.

One of them reaches the target through a proxy, so that its network alone can be cut. The source is never away.
"""

from __future__ import annotations

import json
import math
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from mirror.demo.brokers import LocalCluster
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.proxy import Proxy
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.waiting]

ALIAS = "zones"
WAIT = ("--standby", "--standby-after", "10")
TAKES_OVER = "no living service, the standby takes over"
BEGINS = "standby begins to wait"
FLOW = f"{ALIAS}->backup"


class Zones:
    """A target that services reach directly, or through a proxy."""

    def __init__(self, source: LocalCluster, directory: Path) -> None:
        self.target = LocalCluster("zones", directory)
        self.proxy = Proxy(self.target)
        self.near = Pair(source.bootstrap, self.target.bootstrap, ALIAS, f"{ALIAS}-")
        self._far = Pair(source.bootstrap, self.proxy.bootstrap, ALIAS, f"{ALIAS}-")
        self._directory = directory

    def direct(self) -> Service:
        """A service beside the target, not started yet."""
        return self._service(self.near)

    def through(self) -> Service:
        """A service whose way to the target the proxy can cut."""
        return self._service(self._far)

    def cut(self) -> None:
        """Cut the way through the proxy."""
        self.proxy.cut = True
        self.proxy.disconnect()

    def _service(self, pair: Pair) -> Service:
        return Service(pair.settings(), self._directory, arguments=WAIT, module="tests.harness.impatient")

    def signs(self) -> int:
        """How many signs of life the living service has given so far."""
        records = oracle.read(self.target.bootstrap, f"mirror-control.{ALIAS}.internal")[0]
        return sum(record.key == b"alive" for record in records)

    def leaders(self) -> list[str]:
        """Who published a plan, in this order, each service once."""
        records = oracle.read(self.target.bootstrap, f"mirror-control.{ALIAS}.internal")[0]
        return list(dict.fromkeys(json.loads(r.value)["leader"] for r in records if r.key == b"plan" and r.value))


def copies(service: Service) -> None:
    """Wait until it has taken over and copies, and says that it is ready."""
    service.wait_for("its other page", lambda: len(service.find("mirror starts")) > len(service.find(BEGINS)))
    service.wait_for("records copied", lambda: service.metric("mirror_source_records_total") > 100)
    service.wait_for("ready", lambda: service.get("/readyz") == (200, "ok\n"))
    assert service.metric("mirror_flow_leader") == 1
    assert len(service.find(TAKES_OVER, flow=FLOW)) == 1


def waits(service: Service) -> None:
    """Wait until it stands by, hears the leader, and could take over: it is ready, and says for whom it waits."""
    service.wait_for("it stands by", lambda: service.get("/readyz") == (200, "ok: standby\n"))
    service.wait_for("it has heard", lambda: "the last sign of life is from" in service.get("/status")[1])
    assert service.metric("mirror_flow_state", state="standby") == 1
    assert "This service stands by" in service.get("/")[1]


def test_the_standby_takes_over_and_no_two_take_turns(source_cluster: LocalCluster, tmp_path: Path) -> None:
    zones = Zones(source_cluster, tmp_path)
    with ExitStack() as stack:

        def started(service: Service) -> Service:
            return stack.enter_context(service)

        stack.enter_context(zones.target)
        stack.enter_context(zones.proxy)
        topic = zones.near.topic("led", 2)
        load = stack.enter_context(Load(zones.near.source, {topic: 2}, rate=200))

        # Nothing has ever run. Both begin to wait, and the one that hears the silence first leads.
        first = started(zones.direct())
        first.wait_for_event("standby waits", flow=FLOW, reason="no service has given a sign of life yet")
        second = started(zones.through())
        copies(first)
        waits(second)

        # The standby's own network is cut, for longer than it waits: it does not know, and waits.
        zones.cut()
        second.wait_for("it says that it hears nothing", lambda: second.get("/readyz")[0] == 503)
        before = zones.signs()
        first.wait_for("more signs than it waits for", lambda: zones.signs() >= before + 7)
        zones.proxy.heal()
        waits(second)
        assert not second.find(TAKES_OVER) and len(zones.leaders()) == 1, "they took turns"

        # The leader is suspended, and another service is started in its place at once. That one does not take the flow
        # back, though it hears nothing while the other one starts.
        os.kill(first.pid, signal.SIGSTOP)  # its tasks run on: the service is what has to live
        near = started(zones.direct())
        copies(second)
        waits(near)
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait(PATIENCE) == 3, first.tail()
        assert len(zones.leaders()) == 2, "they took turns"

        # What changes while it waits counts, also what a service that leads takes at its next start only.
        near.file.write_text(yaml.safe_dump({**zones.near.settings(), "metrics": {"labels": "topic"}}))
        near.wait_for("it waits with that", lambda: len(near.find(BEGINS)) == 2)
        waits(near)

        # The leader's network is cut: the standby hears nothing, although the target answers it.
        zones.cut()
        copies(near)
        assert math.isnan(near.metric("mirror_source_records_total", partition=0)), "it leads with an old configuration"
        zones.proxy.heal()
        assert second.wait(PATIENCE) == 3, second.tail()  # and is started again, as an orchestrator does it
        last = started(zones.through())
        waits(last)
        assert last.terminate() == 0, last.tail()  # a standby has nothing to finish
        load.stop()
        zones.near.await_same(topic)
        assert near.terminate() == 0, near.tail()
        zones.near.assert_settled(topic)
        assert len(zones.leaders()) == 3, "they took turns"
