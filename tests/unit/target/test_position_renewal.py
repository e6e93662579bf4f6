"""How often a position is committed again, so that the target does not forget it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.plan import RENEW_INTERVAL
from mirror.model import Topic
from mirror.target import position_renewal
from mirror.target.position_renewal import LET_GO_WITHIN, Renewal, interval_of
from tests.unit.test_naming import flow


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [
        (10_080, 60_480),  # Kafka's default of seven days: ten times in it
        (1, 6),
        (525_600, RENEW_INTERVAL),  # a year: no longer than a day
    ],
)
def test_a_tenth_of_the_targets_retention_and_a_day_at_most(minutes: float, seconds: float) -> None:
    assert interval_of(minutes) == seconds


@pytest.mark.parametrize("exactly_once", [True, False])
def test_without_transactions_a_topic_is_renewed_once_no_task_can_copy_it_any_more(
    exactly_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the two would fence the other, so the older position could be the last one."""
    renewed, now = list[dict[str, Topic]](), [100.0]

    def thread(args: tuple[dict[str, Topic]], **_: object) -> Any:
        return SimpleNamespace(is_alive=lambda: False, start=lambda: renewed.append(*args))

    monkeypatch.setattr(position_renewal, "ClusterAdmin", lambda _: None)
    monkeypatch.setattr(position_renewal, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(position_renewal, "threading", SimpleNamespace(Thread=thread))
    settings = replace(flow(), exactly_once=exactly_once)
    renewal, topic = Renewal(settings), Topic("r", "id", 1, 1)
    renewal.retired = {"orders": topic}
    renewal.renew()
    assert renewed == ([{"orders": topic}] if exactly_once else [])
    now[0] += LET_GO_WITHIN * settings.transaction_timeout + 1
    renewal.retired = {"orders": topic, "late": topic}
    renewal.renew()
    assert renewed == [{"orders": topic}]
