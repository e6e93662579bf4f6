"""What is asked of the clusters' releases before anything is taken over."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from mirror.clock import Clock
from mirror.task import cluster_releases
from mirror.task.cluster_releases import TARGET, Releases


class Loop:
    """Gives one answer, whenever that comes."""

    def __init__(self) -> None:
        self.answer: Future[str] = Future()

    def ask(self, question: Any) -> Future[str]:
        question.close()
        return self.answer


def test_an_answer_that_comes_late_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a page would say that the cluster is too old, and no log line why."""
    monkeypatch.setattr(cluster_releases, "FIRST_ANSWER", 0.0)
    releases, loop = Releases(Clock()), Loop()
    as_one: Any = loop
    releases.ask_first(as_one)
    releases.keep(as_one)
    assert releases.too_old == "" and not loop.answer.cancelled()
    loop.answer.set_result(TARGET)
    releases.keep(as_one)
    assert releases.too_old == TARGET
