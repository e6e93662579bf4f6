"""When silent tasks count as hung."""

from __future__ import annotations

from mirror.service.hung_tasks import PATIENCE_MAX, HungTasks
from mirror.timing import SILENCE


def test_silence_has_to_last_from_its_first_observation() -> None:
    hung = HungTasks()
    assert not hung.is_over(1, True, 100.0)
    assert not hung.is_over(1, True, 100.0 + SILENCE - 1)
    assert hung.is_over(1, True, 100.0 + SILENCE)


def test_a_report_or_a_spark_without_executors_ends_it() -> None:
    hung = HungTasks()
    for silent, can_run in ((0, True), (1, False)):
        assert not hung.is_over(1, True, 0.0)
        assert not hung.is_over(silent, can_run, SILENCE)
        assert not hung.is_over(1, True, SILENCE + 1), "counted anew"
        hung.forget()


def test_patience_doubles_until_all_tasks_report() -> None:
    hung, now, waited = HungTasks(), 0.0, []
    for _ in range(7):
        begun = now
        while not hung.is_over(1, True, now):
            now += 1.0
        hung.restarted()
        waited.append(now - begun)
    assert waited == [SILENCE, 60, 120, 240, 480, PATIENCE_MAX, PATIENCE_MAX]
    assert not hung.is_over(1, True, now) and hung.is_over(1, True, now + PATIENCE_MAX), "asking changes nothing"
    assert not hung.is_over(0, True, now)
    assert not hung.is_over(1, True, now) and hung.is_over(1, True, now + SILENCE)
