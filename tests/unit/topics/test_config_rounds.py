"""When rounds over topic configurations are made, while another flow keeps these and after it has stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mirror.control import leader_rounds
from mirror.model import Topic
from mirror.settings import Flow
from mirror.topics import config_rounds
from mirror.topics.config_rounds import ConfigRounds
from mirror.topics.trusted import Trusted
from tests.unit.control.test_control_reader import flow  # noqa: F401

INTERVAL = 600.0
TRUSTED = Trusted({"orders": Topic("primary.orders", "id", 1, 1)}, frozenset())


@dataclass
class Time:
    """A clock that goes on while the rounds wait; `at_each` is called then, and says whether they end."""

    at_each: Callable[[float], bool]
    now: float = 0.0
    over: bool = False

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return self.over

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.over = self.at_each(self.now)


def test_after_the_keeper_has_stopped_nothing_is_set_back_for_an_interval(
    flow: Flow,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may come back, with changes that it had not brought before: a restart takes less than an interval."""
    rounds: Any = ConfigRounds(replace(flow, sync_topic_configs_interval=INTERVAL), lambda: TRUSTED, lambda _: None)
    made: list[float] = []

    class Sync:
        def __init__(self, _: Flow) -> None: ...

        def empty(self, _: object) -> set[str]:
            return set()

        def round(self, topics: Mapping[str, Topic], _: object) -> list[Any]:
            made.append(clock.now)
            return []

    def keepers(now: float) -> bool:
        rounds.kept_by = "there->here" if 100 <= now < 200 or 300 <= now < 400 else ""
        return now > 2000

    clock = Time(keepers)
    for module in (config_rounds, leader_rounds):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(config_rounds, "ConfigSync", Sync)
    rounds._make_rounds(clock)
    first, *later = made
    assert first == 0
    assert [round((at - 400) / INTERVAL, 1) for at in later] == [1, 2], (
        "an interval after the second stop, and then as ever"
    )
