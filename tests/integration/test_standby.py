"""Two services in two zones: one leads, the other one stands by, and takes over when the first one is gone.

The stories run at the same time, since they mostly wait. Some services reach a cluster through a proxy of their own, so
that one service's network alone can be cut, on either side.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from mirror.demo.brokers import LocalCluster, start_together
from tests.checker.history import Record
from tests.harness import oracle
from tests.harness.installed import Program
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.proxy import Proxy
from tests.harness.service import Service
from tests.harness.together import together
from tests.harness.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.long]

IMPATIENT = Program((sys.executable, "-m", "tests.harness.impatient"), os.environ)
AFTER = 10  # seconds
NEVER = 10_000  # seconds, longer than any test: only a goodbye makes such a standby take over
TAKES_OVER = "no living service, the standby takes over"
BEGINS = "standby begins to wait"
GOODBYE = "service has said goodbye, a standby takes over soon"


class Network:
    """Two clusters, and ways to each of them that can be cut apart from each other."""

    def __init__(self, directory: Path) -> None:
        self.source, self.target = self.clusters = [LocalCluster(name, directory) for name in ("source", "target")]
        self.leaders_source, self.leaders_target = Proxy(self.source), Proxy(self.target)
        self.others = [(Proxy(self.source), None) for _ in range(2)] + [(None, Proxy(self.target)) for _ in range(2)]

    @contextmanager
    def running(self) -> Iterator[Network]:
        """Run the brokers and the proxies."""
        with ExitStack() as stack:
            for cluster in self.clusters:
                stack.callback(cluster.stop)
            start_together(*self.clusters)
            others = [way for ways in self.others for way in ways if way is not None]
            for proxy in (self.leaders_source, self.leaders_target, *others):
                stack.enter_context(proxy)
            yield self


@dataclass(frozen=True)
class Story:
    """What happens to the services of one flow."""

    pair: Pair
    topic: str
    load: Load
    directory: Path
    stack: ExitStack

    def start(self, source: Proxy | None = None, target: Proxy | None = None, after: int = AFTER) -> Service:
        """Start a service. It reaches a cluster directly, or through a proxy."""
        ways = {name: way.bootstrap for name, way in (("source", source), ("target", target)) if way is not None}
        arguments = ("--standby", "--standby-after", str(after))
        settings = replace(self.pair, **ways).settings()
        return self.stack.enter_context(Service(settings, self.directory, arguments=arguments, program=IMPATIENT))

    def start_leader(self, source: Proxy | None = None, target: Proxy | None = None) -> Service:
        """Start the first service. Nothing has ever run, so it leads after a while, and who comes later waits."""
        leader = self.start(source, target)
        leader.wait_for_event("standby waits", flow=self.pair.flow, reason="no service has given a sign of life yet")
        return leader

    def await_signs(self, service: Service) -> None:
        """Wait until a service has given more signs of life than a standby waits for."""
        wanted = self._signs() + 7
        service.wait_for("more signs than a standby waits for", lambda: self._signs() >= wanted)

    def assert_leaders(self, count: int) -> None:
        """Check that no more services have led than had to."""
        plans = [json.loads(each.value) for each in self._control_records() if each.key == b"plan" and each.value]
        assert len({plan["leader"] for plan in plans}) == count, "they took turns"

    def end(self, leader: Service, *standbys: Service) -> None:
        """Stop the standbys first, then the leader, and check what was copied."""
        for standby in standbys:
            assert standby.terminate() == 0, standby.tail()
            assert not standby.find(GOODBYE), "a standby has nothing to finish"
        self.load.stop()
        self.pair.await_same(self.topic)
        assert leader.terminate() == 0, leader.tail()
        self.pair.assert_settled(self.topic)

    def _signs(self) -> int:
        return sum(record.key == b"alive" for record in self._control_records())

    def _control_records(self) -> Sequence[Record]:
        return oracle.read(self.pair.target, f"mirror-control.{self.pair.alias}.internal")[0]


def cut(way: Proxy) -> None:
    """Close connections, and refuse new ones."""
    way.cut = True
    way.disconnect()


def lose_packets(way: Proxy) -> None:
    """Let nothing pass, without a word."""
    way.loses_packets = True


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


def hears_nothing(service: Service) -> None:
    """Wait until it says that it does not know whether a service lives."""
    service.wait_for("it says that it hears nothing", lambda: service.get("/readyz")[0] == 503)


def a_leader_ends_in_any_way(story: Story) -> None:
    near = story.start_leader()
    far = story.start()
    copies(near)
    waits(far)

    # The leader is killed, and started again at once. It hears nothing while the other one starts, and waits.
    near.kill()
    near = story.start()
    copies(far)
    waits(near)
    story.assert_leaders(2)

    # The leader is suspended, and another service is started in its place at once.
    os.kill(far.pid, signal.SIGSTOP)  # its tasks run on: the service is what has to live
    suspended, far = far, story.start(after=NEVER)
    copies(near)
    waits(far)
    os.kill(suspended.pid, signal.SIGCONT)
    assert suspended.wait(PATIENCE) == 3, suspended.tail()
    assert not suspended.find(GOODBYE), "another service leads"
    story.assert_leaders(3)

    # What changes while it waits counts, also what a service that leads takes at its next start only.
    far.file.write_text(yaml.safe_dump({**story.pair.settings(), "metrics": {"labels": "topic"}}))
    far.wait_for("it waits with that", lambda: len(far.find(BEGINS)) == 2)
    waits(far)

    # The leader is restarted in order. The other one takes over at once, and the one that comes back waits.
    assert near.terminate() == 0, near.tail()
    assert near.find(GOODBYE), near.tail()
    far.wait_for_event(TAKES_OVER)
    near = story.start(after=NEVER)
    copies(far)
    assert math.isnan(far.metric("mirror_source_records_total", partition=0)), "it leads with an old configuration"
    waits(near)
    story.assert_leaders(4)
    story.end(far, near)


def a_leader_loses_the_source(way: Proxy, story: Story) -> None:
    """It can copy nothing, but it reads on the target that another one leads."""
    leader = story.start_leader(source=way)
    standby = story.start()
    copies(leader)
    waits(standby)
    lose_packets(way)
    copies(standby)
    assert leader.wait(PATIENCE) == 3, leader.tail()  # and is started again, as an orchestrator does it
    way.heal()
    again = story.start(source=way)
    waits(again)
    story.assert_leaders(2)
    story.end(standby, again)


def first_standbys_and_then_the_leader_are_cut_off(network: Network, story: Story) -> None:
    leader = story.start_leader(target=network.leaders_target)
    cut_off = [story.start(*ways) for ways in network.others]
    for each in cut_off:
        waits(each)

    # A standby's own network is cut, on either side, for longer than it waits: it does not know, and waits. This may
    # fall into the leader's start, when it has no plan yet.
    ways = [way for both in network.others for way in both if way is not None]
    for sever, way in zip((cut, lose_packets, cut, lose_packets), ways, strict=True):
        sever(way)
    for each in cut_off:
        hears_nothing(each)
    story.await_signs(leader)
    assert not any(each.find(TAKES_OVER) for each in cut_off)
    for way in ways:
        way.heal()
    for each in cut_off:
        waits(each)
        assert each.terminate() == 0, each.tail()
    copies(leader)
    story.assert_leaders(1)

    # The leader loses the target: the standby hears nothing, although the target answers it.
    standby = story.start()
    waits(standby)
    lose_packets(network.leaders_target)
    copies(standby)
    network.leaders_target.heal()
    assert leader.wait(PATIENCE) == 3, leader.tail()
    again = story.start(target=network.leaders_target)
    waits(again)
    story.assert_leaders(2)
    story.end(standby, again)


def test_the_standby_takes_over_and_no_two_take_turns(data_path: str, tmp_path: Path) -> None:
    with Network(tmp_path).running() as network:

        def told(name: str, story: Callable[[Story], object]) -> Callable[[], None]:
            pair = Pair(network.source.bootstrap, network.target.bootstrap, name, f"{name}-").by(data_path)

            def begin() -> None:
                with ExitStack() as stack:
                    topic = pair.topic("led", 2)
                    load = stack.enter_context(Load(pair.source, {topic: 2}, rate=200))
                    story(Story(pair, topic, load, tmp_path, stack))

            return begin

        together(
            told("ends", a_leader_ends_in_any_way),
            told("source", partial(a_leader_loses_the_source, network.leaders_source)),
            told("target", partial(first_standbys_and_then_the_leader_are_cut_off, network)),
        )
