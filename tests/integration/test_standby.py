"""Several services of one flow: one leads, the others stand by, and one of them takes over when the leader is gone.

One story with as few services as it needs, so that a busy machine can tell it, too. No step depends on which service is
faster: while a leader starts, whoever stands by has more patience than the test (PATIENT). Services reach a cluster
directly, or through a proxy, so that one service's network alone can be cut, on either side.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
from tests.harness.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.long]

IMPATIENT = Program((sys.executable, "-m", "tests.harness.impatient"), os.environ)
AFTER = 10  # seconds
PATIENT = 10_000  # seconds, longer than any test: only a goodbye makes such a standby take over
TAKES_OVER = "no living service, the standby takes over"
BEGINS = "standby begins to wait"
GOODBYE = "service has said goodbye, a standby takes over soon"


class Network:
    """Two clusters, and ways to each of them that can be cut apart from each other."""

    def __init__(self, directory: Path) -> None:
        self.source, self.target = self.clusters = [LocalCluster(name, directory) for name in ("source", "target")]
        self.to_source, self.to_target, self.others_target = Proxy(self.source), Proxy(self.target), Proxy(self.target)

    @contextmanager
    def running(self) -> Iterator[Network]:
        """Run the brokers and the proxies."""
        with ExitStack() as stack:
            for cluster in self.clusters:
                stack.callback(cluster.stop)
            start_together(*self.clusters)
            for proxy in (self.to_source, self.to_target, self.others_target):
                stack.enter_context(proxy)
            yield self


@dataclass(frozen=True)
class Story:
    """The services of one flow."""

    network: Network
    pair: Pair
    directory: Path
    stack: ExitStack

    def start(self, after: int = AFTER, source: Proxy | None = None, target: Proxy | None = None) -> Service:
        """Start a service. It reaches a cluster directly, or through a proxy."""
        ways = {name: way.bootstrap for name, way in (("source", source), ("target", target)) if way is not None}
        arguments = ("--standby", "--standby-after", str(after))
        settings = replace(self.pair, **ways).settings()
        return self.stack.enter_context(Service(settings, self.directory, arguments=arguments, program=IMPATIENT))

    def assert_leaders(self, count: int) -> None:
        """Check that no more services have led than had to."""
        plans = [json.loads(each.value) for each in self._control_records() if each.key == b"plan" and each.value]
        assert len({plan["leader"] for plan in plans}) == count, "they took turns"

    def _control_records(self) -> Sequence[Record]:
        return oracle.read(self.pair.target, f"mirror-control.{self.pair.alias}.internal")[0]


def copies(service: Service) -> None:
    """Wait until it has taken over and copies, and says that it is ready."""
    service.wait_for("its other page", lambda: len(service.find("mirror starts")) > len(service.find(BEGINS)))

    def has_copied() -> bool:
        return service.metric("mirror_source_records_total") > 100

    service.wait_for("records copied", has_copied, 2 * PATIENCE)  # Spark starts
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


def ends_since_another_leads(service: Service) -> None:
    """Wait for its end. An orchestrator starts it again."""
    assert service.wait(PATIENCE) == 3, service.tail()
    assert not service.find(GOODBYE), "another service leads"


def a_standby_ends(service: Service) -> None:
    """Stop it in order, whether it hears a leader or not."""
    assert service.terminate() == 0, service.tail()
    assert not service.find(GOODBYE), "a standby has nothing to finish"


def the_first_leader(story: Story) -> tuple[Service, Service]:
    """Nothing has ever run, so it leads after a while. Who comes later waits, however the configuration changes."""
    leader = story.start()
    leader.wait_for_event("standby waits", flow=story.pair.flow, reason="no service has given a sign of life yet")
    standby = story.start(PATIENT, target=story.network.to_target)
    copies(leader)
    waits(standby)

    # What changes while it waits counts, also what a service that leads takes at its next start only.
    settings = yaml.safe_load(standby.file.read_text())
    standby.rewrite(yaml.safe_dump({**settings, "metrics": {"labels": "topic"}}))
    standby.wait_for("it waits with that", lambda: len(standby.find(BEGINS)) == 2)
    waits(standby)
    story.assert_leaders(1)
    return leader, standby


def the_leader_is_stopped(story: Story, leader: Service, standby: Service) -> None:
    """The standby is too patient to take over because of silence: it can only be the goodbye."""
    assert leader.terminate() == 0, leader.tail()
    assert leader.find(GOODBYE), leader.tail()
    copies(standby)
    assert math.isnan(standby.metric("mirror_source_records_total", partition=0)), "it leads with an old configuration"
    story.assert_leaders(2)


def the_leader_loses_the_target(story: Story) -> Service:
    """The standby hears nothing, although the target answers it. Returns it; the leader ends within a minute."""
    standby = story.start(source=story.network.to_source)
    waits(standby)
    story.network.to_target.loses_packets = True
    copies(standby)
    story.network.to_target.heal()
    story.assert_leaders(3)
    return standby


def the_leader_loses_the_source(story: Story, leader: Service, before: Service) -> tuple[Service, Service]:
    """It can copy nothing. Standbys that have lost a cluster, too, do not know that, and do not take over.

    The leader `before` it ends meanwhile, and may give signs of life until then. Returns the service that has taken
    over, and another one that stands by.
    """
    network = story.network
    no_source = story.start(source=network.to_source)
    no_target = story.start(target=network.others_target)
    standby = story.start()
    for each in (no_source, no_target, standby):
        waits(each)
    network.others_target.loses_packets = network.to_source.loses_packets = True
    for each in (no_source, no_target):
        hears_nothing(each)
    copies(standby)
    for each in (before, leader):
        ends_since_another_leads(each)
    for each in (no_source, no_target):
        assert not each.find(TAKES_OVER) and each.get("/readyz")[0] == 503
    a_standby_ends(no_target)
    network.to_source.heal()
    waits(no_source)
    story.assert_leaders(4)
    return standby, no_source


def the_leader_is_suspended(story: Story, leader: Service, standby: Service) -> Service:
    """Its tasks run on: the service is what has to live. It ends. Returns the one that is started in its place."""
    os.kill(leader.pid, signal.SIGSTOP)
    copies(standby)
    os.kill(leader.pid, signal.SIGCONT)
    ends_since_another_leads(leader)
    again = story.start()
    waits(again)
    story.assert_leaders(5)
    return again


def the_leader_is_killed(story: Story, leader: Service, standby: Service) -> None:
    """Nobody says goodbye. It is started again at once, with more patience than the test: it only may wait."""
    leader.kill()
    again = story.start(PATIENT)
    copies(standby)
    waits(again)
    assert not leader.find(GOODBYE)
    story.assert_leaders(6)
    a_standby_ends(again)


def test_a_standby_takes_over_and_no_two_take_turns(data_path: str, tmp_path: Path) -> None:
    with Network(tmp_path).running() as network, ExitStack() as stack:
        pair = Pair(network.source.bootstrap, network.target.bootstrap, "led", "led-").by(data_path)
        topic = pair.topic("led", 2)
        load = stack.enter_context(Load(pair.source, {topic: 2}, rate=200))
        story = Story(network, pair, tmp_path, stack)

        first, second = the_first_leader(story)
        the_leader_is_stopped(story, first, second)
        third = the_leader_loses_the_target(story)
        fourth, fifth = the_leader_loses_the_source(story, third, second)
        sixth = the_leader_is_suspended(story, fourth, fifth)
        the_leader_is_killed(story, fifth, sixth)

        load.stop()
        pair.await_same(topic)
        assert sixth.terminate() == 0, sixth.tail()
        pair.assert_settled(topic)
