"""For how long a throttled answer counts."""

from __future__ import annotations

import time

import pytest

from mirror.kafka.throttling import LONGEST, REPORTED_FOR, Throttle


@pytest.mark.parametrize(("said", "counts"), [(1.0, 1.0), (LONGEST, LONGEST), ((2**31 - 1) / 1000, LONGEST)])
def test_no_answer_counts_for_long(said: float, counts: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may say that it throttles a client for 24 days."""
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    throttle = Throttle()
    throttle.note(said)
    now += counts + REPORTED_FOR - 0.1
    assert throttle.active
    now += 0.2
    assert not throttle.active
