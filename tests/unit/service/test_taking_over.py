"""A standby takes over with the configuration as it is in that moment, once, and only if a claim says so."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mirror import logs
from mirror.config.reload import Configuration
from mirror.errors import ClusterAway, ConfigError, FlowError, MirrorError, SetupError, Superseded
from mirror.service import service as service_module
from mirror.service import standby as module
from mirror.service.listener import Claimed
from mirror.service.reloading import Hangups
from mirror.service.service import Service
from mirror.service.standby import Standby
from mirror.settings import Flow
from tests.harness.waiting import until

OLD = """\
clusters:
  a: {bootstrap.servers: "a:9092"}
  b: {bootstrap.servers: "b:9092"}
flows:
  - {source: a, target: b, topics: [orders]}
  - {source: b, target: a, topics: [bills]}
"""
NEW = OLD.replace("[orders]", "[orders], transform: json.dumps, group: other")
A_B, B_A = "a->b", "b->a"


@dataclass
class World:
    """A standby with fake listeners, which say what the test wants."""

    file: Path
    stopping: threading.Event = field(default_factory=threading.Event)
    silent: set[str] = field(default_factory=set)  # flows without a living service
    nearly: set[str] = field(default_factory=set)
    says: dict[str, Claimed] = field(default_factory=dict)  # by flow; WON of others
    listened_to: list[Flow] = field(default_factory=list)  # one entry for each flow and each time of waiting
    claims: list[str] = field(default_factory=list)
    signs: dict[str, threading.Event] = field(default_factory=dict)  # of flows that were won: set once they end
    kept: list[str] = field(default_factory=list)  # flows that got signs of life when the last claim was made
    led: Future[bool] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.file.write_text(OLD)
        self.files = Configuration([self.file], {})
        self.standby = Standby(self.files, Hangups(), "us", 20.0, self.stopping)

    def start(self) -> None:
        threading.Thread(target=lambda: self.led.set_result(self.standby.wait()), daemon=True).start()
        until("it listens", lambda: len(self.listened_to) == 2)

    def listener(self, flow: Flow, *_: object) -> Any:
        self.listened_to.append(flow)
        return FakeListener(self, flow.name)


class FakeListener:
    """Stands in for the listener of one flow, and says what the test wants."""

    deaf = ""

    def __init__(self, world: World, flow: str) -> None:
        self.world, self.flow = world, flow

    @property
    def is_over(self) -> bool:
        return self.flow in self.world.silent

    @property
    def is_nearly_over(self) -> bool:
        return self.is_over or self.flow in self.world.nearly

    def claim(self, _: bytes) -> Future[Claimed]:
        self.world.claims.append(self.flow)
        self.world.kept = [flow for flow, ended in self.world.signs.items() if not ended.is_set()]
        said: Future[Claimed] = Future()
        said.set_result(self.world.says.get(self.flow, Claimed.WON))
        if said.result() is not Claimed.WON:
            self.world.silent.discard(self.flow)
        if said.result() is Claimed.LOST:
            self.world.silent.clear()  # the other service has claimed them all
        return said

    def signs(self, service_id: str, until: threading.Event) -> Any:
        assert service_id == "us"
        return SimpleNamespace(start=lambda: self.world.signs.update({self.flow: until}))

    def start(self) -> None:
        pass

    finish = start


class Front:
    """Shows nothing."""

    clusters = dict.fromkeys(("a", "b"))

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    __exit__ = __init__


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path / "mirror.yaml")
    level = logging.getLogger("mirror").level
    monkeypatch.setattr(logs, "configure", lambda _: None)
    monkeypatch.setattr(module, "Front", Front)
    monkeypatch.setattr(module, "Listener", made.listener)
    monkeypatch.setattr(module, "LOOK_INTERVAL", 0.01)
    monkeypatch.setattr(module, "TRY_AGAIN", 0.01)
    monkeypatch.setattr(module, "TOGETHER", 0.01)
    yield made
    made.stopping.set()
    made.led.result(10)
    logging.getLogger("mirror").setLevel(level)


def test_a_standby_leads_after_it_has_claimed_the_silent_flows(world: World) -> None:
    world.silent, world.nearly = {B_A}, {A_B}
    world.start()
    assert world.led.result(10) and world.claims == [A_B, B_A], "in the order that every standby has"


def test_a_flow_that_a_living_service_leads_is_not_claimed(world: World) -> None:
    world.silent = {B_A}
    world.start()
    assert world.led.result(10) and world.claims == [B_A]


def test_a_changed_configuration_is_waited_with_anew_whatever_has_changed(world: World) -> None:
    world.start()
    world.file.write_text(NEW)
    until("it listens anew", lambda: len(world.listened_to) == 4, 20)
    assert world.listened_to[2].transform == "json.dumps" and world.listened_to[2].group == "other"
    world.silent = {A_B}
    assert world.led.result(10)
    assert world.files.settings.flows[0] == world.listened_to[2]


def test_a_change_that_nobody_has_noticed_is_not_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the configuration refers to, for example, is not looked at."""
    monkeypatch.setattr(world.files, "has_changed", lambda: False)
    world.start()
    world.file.write_text(NEW)
    world.silent = {A_B}
    assert world.led.result(10)
    assert len(world.listened_to) == 4, "it has waited with the new one"
    assert world.files.settings.flows[0].transform == "json.dumps"


def test_a_password_that_was_changed_meanwhile_is_taken_over_without_waiting_anew(world: World) -> None:
    password = world.file.parent / "password"
    password.write_text("old")
    login = (
        f'security.protocol: SASL_SSL, sasl.mechanisms: PLAIN, sasl.username: us, sasl.password: "${{file:{password}}}"'
    )
    world.file.write_text(OLD.replace('"a:9092"', f'"a:9092", {login}'))
    world.start()
    password.write_text("new")
    world.silent = {A_B}
    assert world.led.result(10) and len(world.listened_to) == 2
    assert world.files.settings.flows[0].source.properties["sasl.password"] == "new"


def test_an_invalid_configuration_is_not_replaced_by_an_old_one(world: World) -> None:
    world.start()
    world.file.write_text(NEW.replace("group", "grope"))
    world.silent = {A_B}
    until("it says so", lambda: "the standby can't take over: " in "".join(world.standby._problems()))
    assert not world.led.done() and not world.claims
    world.file.write_text(NEW)
    assert world.led.result(10) and world.files.settings.flows[0].transform == "json.dumps"
    assert not world.standby._problems()


def test_a_transform_that_cannot_be_imported_ends_no_standby(world: World) -> None:
    world.start()
    world.file.write_text(NEW.replace("json.dumps", "json.nothing"))
    world.silent = {A_B}
    until("it says so", lambda: "json.nothing" in "".join(world.standby._problems()))
    assert not world.led.done() and not world.claims
    assert len(world.listened_to) == 2, "it listens as before"
    world.file.write_text(NEW)
    assert world.led.result(10) and world.files.settings.flows[0].transform == "json.dumps"


PORT_IS_TAKEN = SetupError("http: can't listen on 127.0.0.1:80: Address already in use")


@pytest.mark.parametrize(
    ("what", "error"), [("front", PORT_IS_TAKEN), ("listener", ClusterAway("b", "no consumer can be made"))]
)
def test_a_changed_configuration_that_cannot_be_used_yet_ends_no_standby(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str, error: MirrorError
) -> None:
    """A service that ends with code 2 may not be started again."""
    world.start()
    refusals = [error] * 3

    def fails(*given: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return world.listener(*given) if what == "listener" else None

    if what == "front":
        monkeypatch.setattr(Front, "__enter__", fails)
    else:
        monkeypatch.setattr(module, "Listener", fails)
    world.file.write_text(NEW)
    until("it listens anew", lambda: len(world.listened_to) == 4, 20)
    assert [record.__dict__["reason"] for record in caplog.records if record.levelno == logging.ERROR] == [str(error)]
    world.silent = {A_B}
    assert world.led.result(10)


def test_a_changed_configuration_that_cannot_be_used_yet_may_be_changed_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TRY_AGAIN", 600.0)
    world.start()
    monkeypatch.setattr(Front, "__enter__", Mock(side_effect=[PORT_IS_TAKEN, None]))
    world.file.write_text(NEW)
    until("it says so", lambda: "can't wait with the changed configuration" in caplog.text)
    world.file.write_text(OLD)
    until("it listens anew", lambda: len(world.listened_to) == 4, 20)


def test_a_first_configuration_that_cannot_be_used_ends_the_standby(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.led.set_result(False)
    monkeypatch.setattr(Front, "__enter__", Mock(side_effect=PORT_IS_TAKEN))
    with pytest.raises(SetupError, match="Address already in use"):
        world.standby.wait()


def test_standbys_claim_in_the_same_order_whatever_the_order_of_their_files(world: World) -> None:
    first, second = OLD.splitlines()[-2:]
    world.file.write_text(OLD.replace(f"{first}\n{second}", f"{second}\n{first}"))
    world.silent = {A_B, B_A}
    world.start()
    assert world.led.result(10) and world.claims == [A_B, B_A]
    assert [flow.name for flow in world.listened_to] == [B_A, A_B]


def test_a_configuration_that_can_be_read_once_only_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.led.set_result(False)
    world.file.unlink()
    with pytest.raises(ConfigError):
        world.standby.wait()


def test_who_loses_one_flow_takes_over_none(world: World) -> None:
    world.silent, world.says = {A_B, B_A}, {B_A: Claimed.LOST}
    world.start()
    until("it claims", lambda: world.claims == [A_B, B_A])
    world.file.write_text(NEW)
    until("it waits on", lambda: len(world.listened_to) == 4, 20)
    assert not world.led.done() and world.claims == [A_B, B_A]


@pytest.mark.parametrize("said", [Claimed.WON, Claimed.LOST, Claimed.UNKNOWN])
def test_flows_that_were_won_stay_claimed_until_the_last_one_is(world: World, said: Claimed) -> None:
    """Each claim takes a while: with many flows the first one would fall silent for other standbys."""
    world.silent, world.says = {A_B, B_A}, {B_A: said}
    world.start()
    until("it has claimed both", lambda: world.claims == [A_B, B_A])
    assert world.kept == [A_B]
    until("they end: the service gives signs of its own, or another one does", world.signs[A_B].is_set)


def test_a_flow_that_nobody_can_claim_keeps_no_other_one(world: World) -> None:
    world.silent, world.says = {A_B, B_A}, {A_B: Claimed.UNKNOWN}
    world.start()
    assert world.led.result(10) and world.claims == [A_B, B_A]


def test_a_standby_that_stops_does_not_lead(world: World) -> None:
    world.start()
    world.stopping.set()
    assert not world.led.result(10)


def runner(failure: MirrorError | None = None, alive: bool = True, beat: float = 0.0) -> Any:
    return SimpleNamespace(failure=failure, is_alive=lambda: alive, beat=beat, status=SimpleNamespace(leads=False))


def test_a_flow_that_starts_or_is_blocked_gives_signs_of_life() -> None:
    now = time.monotonic()
    assert service_module._lives(runner(beat=now)), "whether it leads or not"
    assert not service_module._lives(runner(alive=False, beat=now))
    assert not service_module._lives(runner(beat=now - service_module.LIVE_WITHIN))


def test_a_flow_that_another_service_leads_neither_lives_nor_has_to() -> None:
    """Its thread may still wait for its tasks to end."""
    waits = runner(Superseded("another service leads it now"), beat=time.monotonic())
    assert not service_module._lives(waits), "two services would give signs of life"
    long_ago = time.monotonic() - service_module.LIVE_WITHIN - 1
    waits.beat, waits.name = long_ago, "a->b"
    service: Any = SimpleNamespace(_runners=[waits])
    assert Service._live(service) == [], "the other flows run on"
    hangs = runner(beat=long_ago)
    hangs.name = "b->a"
    service._runners.append(hangs)
    assert [each.partition(":")[0] for each in Service._live(service)] == ["b->a"]


@pytest.mark.parametrize("together", [True, False])
def test_a_service_that_stood_by_ends_as_soon_as_another_one_leads_a_flow(together: bool) -> None:
    service: Any = SimpleNamespace(_stopping=threading.Event(), _spark=Future(), _together=together)
    service._runners = [runner(Superseded("another service leads it now"), alive=False), runner()]
    watching = threading.Thread(target=Service._watch, args=(service,), daemon=True)
    watching.start()
    if together:
        watching.join(10)
        assert not watching.is_alive() and not service._stopping.is_set()
        return
    watching.join(0.7)
    assert watching.is_alive(), "the other flow goes on"
    service._runners[1].failure = FlowError("it ends")
    watching.join(10)
    assert not watching.is_alive()
