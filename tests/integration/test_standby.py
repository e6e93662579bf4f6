"""Two services in two zones: one leads, the other one stands by, and takes over when the first one is gone.

The far zone reaches both clusters through proxies, so that its network alone can be cut, on either side.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import yaml

from mirror.demo.brokers import LocalCluster
from tests.checker.history import Record
from tests.harness import oracle
from tests.harness.installed import Program
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.proxy import Proxy
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.long]

ALIAS = "zones"
IMPATIENT = Program((sys.executable, "-m", "tests.harness.impatient"), os.environ)
WAIT = ("--standby", "--standby-after", "10")
TAKES_OVER = "no living service, the standby takes over"
BEGINS = "standby begins to wait"


class Zones:
    """Two clusters that the near zone reaches directly, and the far zone through proxies."""

    def __init__(self, directory: Path, data_path: str) -> None:
        self.clusters = [LocalCluster(name, directory) for name in ("source", "target")]
        self.to_source, self.to_target = self.proxies = [Proxy(cluster) for cluster in self.clusters]
        source, target = (cluster.bootstrap for cluster in self.clusters)
        self.pair = Pair(source, target, ALIAS, f"{ALIAS}-").by(data_path)
        self._far = Pair(self.to_source.bootstrap, self.to_target.bootstrap, ALIAS, f"{ALIAS}-").by(data_path)
        self._directory = directory

    def near(self) -> Service:
        """A service in the near zone, not started yet."""
        return self._service(self.pair)

    def far(self) -> Service:
        """A service in the far zone, not started yet."""
        return self._service(self._far)

    def _service(self, pair: Pair) -> Service:
        return Service(pair.settings(), self._directory, arguments=WAIT, program=IMPATIENT)

    def signs(self) -> int:
        """How many signs of life there have been so far."""
        return sum(record.key == b"alive" for record in self._control_records())

    def have_heard(self, signs: int) -> bool:
        """True once there have been so many signs of life."""
        return self.signs() >= signs

    def leaders(self) -> list[str]:
        """Who published a plan, in this order, each service once."""
        plans = [json.loads(r.value) for r in self._control_records() if r.key == b"plan" and r.value]
        return list(dict.fromkeys(plan["leader"] for plan in plans))

    def _control_records(self) -> Sequence[Record]:
        return oracle.read(self.pair.target, f"mirror-control.{self.pair.alias}.internal")[0]


def cut(proxy: Proxy) -> None:
    """Cut the far zone's way to a cluster."""
    proxy.cut = True
    proxy.disconnect()


def copies(service: Service) -> None:
    """Wait until it has taken over and copies, and says that it is ready."""
    service.wait_for("its other page", lambda: len(service.find("mirror starts")) > len(service.find(BEGINS)))
    service.wait_for("records copied", lambda: service.metric("mirror_source_records_total") > 100)
    service.wait_for("ready", lambda: service.get("/readyz") == (200, "ok\n"))
    assert service.metric("mirror_flow_leader") == 1
    assert len(service.find(TAKES_OVER)) == 1


def waits(service: Service) -> None:
    """Wait until it stands by, hears the leader, and could take over: it is ready, and says for whom it waits."""
    service.wait_for("it stands by", lambda: service.get("/readyz") == (200, "ok: standby\n"))
    service.wait_for("it has heard", lambda: "the last sign of life is from" in service.get("/status")[1])
    assert service.metric("mirror_flow_state", state="standby") == 1
    assert "This service stands by" in service.get("/")[1]
    assert not service.find(TAKES_OVER)


def test_the_standby_takes_over_and_no_two_take_turns(data_path: str, tmp_path: Path) -> None:
    zones = Zones(tmp_path, data_path)
    with ExitStack() as stack:

        def started(service: Service) -> Service:
            return stack.enter_context(service)

        for cluster in zones.clusters:
            stack.enter_context(cluster)
        for proxy in zones.proxies:
            stack.enter_context(proxy)
        topic = zones.pair.topic("led", 2)
        load = stack.enter_context(Load(zones.pair.source, {topic: 2}, rate=200))

        # Nothing has ever run. Both begin to wait, and the one that hears the silence first leads.
        near = started(zones.near())
        near.wait_for_event("standby waits", flow=zones.pair.flow, reason="no service has given a sign of life yet")
        far = started(zones.far())
        copies(near)
        waits(far)

        # The standby's own network is cut, on either side, for longer than it waits: it does not know, and waits.
        for proxy in zones.proxies:
            cut(proxy)
            far.wait_for("it says that it hears nothing", lambda: far.get("/readyz")[0] == 503)
            near.wait_for("more signs than it waits for", partial(zones.have_heard, zones.signs() + 7))
            proxy.heal()
            waits(far)
        assert len(zones.leaders()) == 1, "they took turns"

        # The leader is killed, and started again at once. It hears nothing while the other one starts, and waits.
        near.kill()
        near = started(zones.near())
        copies(far)
        waits(near)
        assert len(zones.leaders()) == 2, "they took turns"

        # The leader loses the source, so it can copy nothing. It still reads on the target that another one leads.
        cut(zones.to_source)
        copies(near)
        assert far.wait(PATIENCE) == 3, far.tail()  # and is started again, as an orchestrator does it
        zones.to_source.heal()
        far = started(zones.far())
        waits(far)
        assert len(zones.leaders()) == 3, "they took turns"

        # The leader is suspended, and another service is started in its place at once.
        suspended, near = near, zones.near()
        os.kill(suspended.pid, signal.SIGSTOP)  # its tasks run on: the service is what has to live
        started(near)
        copies(far)
        waits(near)
        os.kill(suspended.pid, signal.SIGCONT)
        assert suspended.wait(PATIENCE) == 3, suspended.tail()
        assert len(zones.leaders()) == 4, "they took turns"

        # What changes while it waits counts, also what a service that leads takes at its next start only.
        near.file.write_text(yaml.safe_dump({**zones.pair.settings(), "metrics": {"labels": "topic"}}))
        near.wait_for("it waits with that", lambda: len(near.find(BEGINS)) == 2)
        waits(near)

        # The leader loses the target: the standby hears nothing, although the target answers it.
        cut(zones.to_target)
        copies(near)
        assert math.isnan(near.metric("mirror_source_records_total", partition=0)), "it leads with an old configuration"
        zones.to_target.heal()
        assert far.wait(PATIENCE) == 3, far.tail()
        far = started(zones.far())
        waits(far)
        assert far.terminate() == 0, far.tail()  # a standby has nothing to finish
        load.stop()
        zones.pair.await_same(topic)
        assert near.terminate() == 0, near.tail()
        zones.pair.assert_settled(topic)
        assert len(zones.leaders()) == 5, "they took turns"
