"""How a standby claims a flow: its acknowledged sign has to be the first one since the flow fell silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from mirror.control.signs import SIGN_KEY
from mirror.errors import ClusterAway
from mirror.service import listener as module
from mirror.service.listener import LISTEN_INTERVAL, TOGETHER, Claimed, Listener
from mirror.settings import Flow
from mirror.status.cluster_status import ClusterStatus
from mirror.status.flow_status import FlowStatus
from tests.unit.control.test_control_reader import Log, flow, topic  # noqa: F401  # fixtures

AFTER = 20.0
US, THEM, LEADER = b'{"service_id": "us"}', b'{"service_id": "them"}', b'{"service_id": "dead"}'


class Admin:
    """There is a control topic."""

    def __init__(self, _: object) -> None:
        pass

    def ids_now(self, names: list[str]) -> tuple[dict[str, str], dict[str, object]]:
        return dict.fromkeys(names, "first"), {}


@dataclass
class World:
    """A control topic, and what happens in the moment when a standby writes to it."""

    log: Log
    flow: Flow
    before: Callable[[], object] = lambda: None  # before the write
    acknowledged: bool = True
    kept: bool = True  # what is written is read

    def standby(self) -> Listener:
        """One that has heard the leader, and nothing since, for longer than it waits."""
        source = ClusterStatus("primary")
        source.reachable = True
        made = Listener(self.flow, FlowStatus("primary", "backup", "us"), source, AFTER)
        made.read()
        self.log.now += AFTER + LISTEN_INTERVAL
        made.read()
        return made

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        self.before()
        if not self.acknowledged:
            raise ClusterAway("backup", "no answer in time")
        if self.kept:
            self.log.entries.extend(records.items())

    def sign(self, sign: bytes) -> None:
        self.log.entries.append((SIGN_KEY, sign))


@pytest.fixture
def world(flow: Flow, topic: Log, monkeypatch: pytest.MonkeyPatch) -> World:  # noqa: F811
    made = World(topic, flow)
    made.sign(LEADER)
    monkeypatch.setattr(module, "ClusterAdmin", Admin)
    monkeypatch.setattr(module, "ControlWriter", lambda _: made)
    monkeypatch.setattr(module, "time", topic)
    return made


def test_the_first_sign_after_the_silence_wins(world: World) -> None:
    standby = world.standby()
    assert standby.is_over
    assert standby.claimed(US) is Claimed.WON
    assert world.log.entries[-1] == (SIGN_KEY, US) and not standby.is_over, "it has started to count anew"


def test_of_two_standbys_that_claim_at_once_exactly_one_wins(world: World) -> None:
    ours, theirs = world.standby(), world.standby()
    ours.read()
    theirs.read()
    assert ours.is_over and theirs.is_over
    outcome: list[Claimed] = []

    def they_come_between() -> None:
        world.before = lambda: None
        outcome.append(theirs.claimed(THEM))

    world.before = they_come_between
    outcome.append(ours.claimed(US))
    assert outcome == [Claimed.WON, Claimed.LOST]
    assert [value for _, value in world.log.entries] == [LEADER, THEM, US], "each reads both"


def test_a_sign_of_a_leader_that_was_late_is_heard(world: World) -> None:
    standby = world.standby()
    world.before = lambda: world.sign(LEADER)
    assert standby.claimed(US) is Claimed.LOST and not standby.is_nearly_over


def test_nobody_takes_over_by_a_sign_that_is_not_acknowledged(world: World) -> None:
    standby = world.standby()
    world.acknowledged = False
    assert standby.claimed(US) is Claimed.UNKNOWN
    assert "no answer in time" in standby.deaf and not standby.is_nearly_over


def test_nobody_takes_over_if_the_readings_lack_the_sign(world: World) -> None:
    """They come from a broker that was deposed, and does not know it."""
    standby = world.standby()
    world.kept = False
    assert standby.claimed(US) is Claimed.UNKNOWN
    assert "lacks a record just written" in standby.deaf and not standby.is_nearly_over


def test_a_claim_of_a_flow_that_was_heard_since_writes_nothing(world: World) -> None:
    standby = world.standby()
    world.sign(THEM)
    standby.read()
    assert standby.claimed(US) is Claimed.LOST and world.log.entries[-1] == (SIGN_KEY, THEM)


def test_flows_of_one_dead_service_are_claimed_together(world: World) -> None:
    standby = world.standby()
    world.sign(LEADER)
    standby.read()
    world.log.now += AFTER - TOGETHER
    standby.read()
    assert standby.is_nearly_over and not standby.is_over
    assert standby.claimed(US) is Claimed.WON
