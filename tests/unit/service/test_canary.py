"""What the canary tells after defects, and what it asks of the flow. It reaches no cluster here."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace

import pytest

from mirror import settings
from mirror.service.canary import Canary
from mirror.settings import Flow
from mirror.status.canary import CanaryStatus
from tests.harness.waiting import until
from tests.unit.test_naming import flow


def defect() -> Collection[str]:
    raise RuntimeError("a defect")


def test_a_defect_that_comes_again_does_not_look_like_a_canary_that_has_just_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[CanaryStatus] = []
    canary = Canary(flow(canary=settings.Canary(True, 1.0)), defect, told.append)
    monkeypatch.setattr(canary._thread, "_pause", 0.0)
    canary.start()
    until("some tries", lambda: len(told) > 2)
    canary.stop()
    before = told[0].at
    assert {each.at for each in told} == {before}
    told.clear()

    def began_again() -> bool:
        canary.start()  # nothing happens until the first thread has ended
        return bool(told)

    until("it begins again", began_again)
    canary.stop()
    assert told[0].at > before, "another leader's time does not count"


def test_a_reload_does_not_make_a_canary_look_younger(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[CanaryStatus] = []
    on = flow(canary=settings.Canary(True, 1.0))
    canary = Canary(on, defect, told.append)
    monkeypatch.setattr(canary._thread, "_pause", 0.0)
    arrived = CanaryStatus(on.canary_topic, 1.0, 0.5, "")
    canary._publish(arrived)

    def begun_with(wanted: Flow) -> CanaryStatus:
        canary.reconfigure(wanted)
        until("the thread has ended", lambda: canary._thread.join(0.1))
        told.clear()
        canary.start()
        until("it begins again", lambda: told or not canary.wanted)
        return told[0] if told else arrived

    found = begun_with(replace(on, canary=settings.Canary(True, 2.0)))
    assert (found.at, found.seconds) == (1.0, 0.5), "what has arrived last is known"
    begun_with(flow())
    found = begun_with(on)
    assert found.at > 1.0 and found.seconds is None, "one that was off begins anew"
    canary.stop()


class SetMeanwhile(threading.Event):
    """An event that another thread sets, once, just after somebody has looked at it."""

    is_done = False

    def is_set(self) -> bool:
        found = super().is_set()
        if not self.is_done:
            self.is_done = True
            self.set()
        return found


def test_a_look_that_is_asked_for_meanwhile_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    canary = Canary(flow(), list, lambda _: None)
    monkeypatch.setattr(canary, "_lacking", SetMeanwhile())
    assert [canary.wants_look() for _ in range(3)] == [False, True, False]
