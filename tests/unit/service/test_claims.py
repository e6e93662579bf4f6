"""How a standby claims a flow: its acknowledged sign has to be the first one since the flow fell silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from mirror.control.control_topics import PLAN_KEY
from mirror.control.signs import GOODBYE_KEY, SIGN_KEY, Sign
from mirror.errors import ClusterAway
from mirror.service import listener as module
from mirror.service.listener import LISTEN_INTERVAL, TOGETHER, Claimed, Listener
from mirror.settings import Flow
from mirror.status.cluster_status import ClusterStatus
from mirror.status.flow_status import FlowStatus
from tests.unit.control.test_control_reader import PLAN, Log, flow, topic  # noqa: F401  # fixtures

AFTER = 20.0
US, THEM, LEADER, ANOTHER = (Sign(service, "host").encode() for service in ("us", "them", "dead", "another"))


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

    def beginner(self) -> Listener:
        """One that has heard the leader."""
        source = ClusterStatus("primary")
        source.reachable = True
        made = Listener(self.flow, FlowStatus("primary", "backup", "us"), source, AFTER)
        made.read()
        return made

    def standby(self) -> Listener:
        """One that has heard the leader, and nothing since, for longer than it waits."""
        made = self.beginner()
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

    def goodbye(self, sign: bytes) -> None:
        self.log.entries.append((GOODBYE_KEY, sign))


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


def waits_short(world: World, standby: Listener) -> bool:
    """True if the standby takes over soon, from what it has heard so far."""
    standby.read()
    world.log.now += TOGETHER
    standby.read()
    return standby.is_over


def test_after_a_goodbye_the_flow_is_taken_over_soon(world: World) -> None:
    standby = world.beginner()
    world.goodbye(LEADER)
    standby.read()
    assert standby.is_nearly_over, "it is claimed with another flow of the same service"
    assert not standby.is_over, "its goodbye to another flow may not be heard yet"
    assert waits_short(world, standby)
    assert standby.claimed(US) is Claimed.WON
    standby.read()
    assert not standby.is_nearly_over, "our sign has overtaken it"


def test_a_standby_that_starts_after_the_goodbye_waits_short_as_well(world: World) -> None:
    world.goodbye(LEADER)
    assert waits_short(world, world.beginner())


def test_of_two_standbys_that_claim_after_a_goodbye_exactly_one_wins(world: World) -> None:
    ours, theirs = world.beginner(), world.beginner()
    world.goodbye(LEADER)
    assert waits_short(world, ours) and waits_short(world, theirs)
    assert [theirs.claimed(THEM), ours.claimed(US)] == [Claimed.WON, Claimed.LOST]


@pytest.mark.parametrize("sign", [LEADER, ANOTHER, b"of a later format"])
def test_any_sign_overtakes_a_goodbye(world: World, sign: bytes) -> None:
    standby = world.beginner()
    world.goodbye(LEADER)
    world.sign(sign)
    assert not waits_short(world, standby) and not standby.is_nearly_over


def test_a_plan_overtakes_a_goodbye(world: World) -> None:
    standby = world.beginner()
    world.goodbye(LEADER)
    world.log.entries.append((PLAN_KEY, PLAN.encode()))
    assert not waits_short(world, standby) and not standby.is_nearly_over


def test_a_goodbye_of_one_service_says_nothing_of_another_one(world: World) -> None:
    standby = world.beginner()
    world.sign(ANOTHER)
    world.goodbye(LEADER)
    assert not waits_short(world, standby) and not standby.is_nearly_over


@pytest.mark.parametrize("unreadable", [b"", b"of a later format"])
def test_a_goodbye_that_nobody_can_read_is_none(world: World, unreadable: bytes) -> None:
    standby = world.beginner()
    world.goodbye(unreadable)
    assert not waits_short(world, standby)


def test_silence_after_a_goodbye_counts_only_while_the_standby_hears(world: World) -> None:
    standby = world.beginner()
    world.goodbye(LEADER)
    standby.read()
    standby._source.reachable = False
    world.log.now += AFTER
    standby.read()
    assert not standby.is_nearly_over
    standby._source.reachable = True
    standby.read()
    assert standby.is_nearly_over and not standby.is_over


def test_a_goodbye_that_comes_late_loses_no_claim(world: World) -> None:
    """A suspended leader may wake up, and be told to stop, in that moment."""
    standby = world.standby()
    world.before = lambda: world.goodbye(LEADER)
    assert standby.claimed(US) is Claimed.WON
