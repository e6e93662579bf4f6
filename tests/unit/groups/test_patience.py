"""A group round does not wait for ever for coordinators, and notices a cluster that is away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mirror.errors import ClusterAway, PartitionError
from mirror.groups import patience as module
from mirror.groups.patience import AWAY_AFTER, LONG, LONG_MAX, SHORT, TOO_SLOW, Patience

AWAY = ClusterAway("backup", "no answer in time")


def test_a_few_groups_without_an_answer_do_not_count() -> None:
    patience = Patience()
    for _ in range(LONG_MAX):
        assert patience.timeout == LONG
        patience.note(AWAY)
    patience.end()
    assert patience.timeout == SHORT


@pytest.mark.parametrize("answer", [None, PartitionError("refused")])
def test_a_cluster_that_answers_about_one_group_is_not_away(answer: PartitionError | None) -> None:
    patience = Patience()
    for each in (*(AWAY_AFTER - 1) * [AWAY], answer, *AWAY_AFTER * [AWAY]):
        patience.note(each)
    patience.end()


def test_a_cluster_that_never_answers_is_away() -> None:
    patience = Patience()
    with pytest.raises(ClusterAway):
        for _ in range(LONG_MAX + 1):
            patience.note(AWAY)
        patience.end()
    for _ in range(AWAY_AFTER - LONG_MAX - 2):
        patience.note(AWAY)
    with pytest.raises(ClusterAway):
        patience.note(AWAY)


def test_what_comes_before_a_question_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group's offsets are translated first, and that may take seconds."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    patience = Patience()
    patience.note(None)
    for _ in range(AWAY_AFTER + 1):
        clock.now += 2 * TOO_SLOW
        patience.begin()
        clock.now += SHORT
        patience.note(AWAY)
    patience.begin()
    clock.now += 2 * TOO_SLOW
    with pytest.raises(ClusterAway):
        patience.note(AWAY)


def test_a_wait_that_was_for_no_coordinator_counts_even_after_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience()
    for each in (None, *LONG_MAX * [AWAY]):
        patience.note(each)
    monkeypatch.setattr(module, "TOO_SLOW", 0.0)
    with pytest.raises(ClusterAway):
        patience.note(AWAY)
