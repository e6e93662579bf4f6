"""Log lines: one event, one line, whatever is in it."""

from __future__ import annotations

import json
import logging
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.logs import REMEMBERED, REPEAT_AFTER, JsonFormatter, OnChange, Repetitions, TextFormatter, say_last

FORMATTERS = [TextFormatter(), JsonFormatter()]


def record(message: str = "plan", level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.getLogger("mirror.test").makeRecord("mirror.test", level, "file", 1, message, (), None)
    made.__dict__.update(fields)
    made.created = 1_800_000_000.25
    return made


def test_text() -> None:
    line = TextFormatter().format(record(flow="a->b", partitions=3, reason="no answer", empty="", none=None))
    assert line == '2027-01-15T08:00:00.250Z INFO plan flow=a->b partitions=3 reason="no answer" empty=""'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("two\nlines", '"two lines"'),
        ("日本", "日本"),
        ("\x1b[2J", "?[2J"),
        (1.5, "1.5"),
    ],
)
def test_text_values_that_need_quotes_get_them(value: object, shown: str) -> None:
    assert TextFormatter().format(record(v=value)).endswith(f" plan v={shown}")


def test_json() -> None:
    line = JsonFormatter().format(record(level=logging.WARNING, flow="a->b", partitions=3, none=None))
    assert json.loads(line) == {
        "ts": "2027-01-15T08:00:00.250Z",
        "level": "WARNING",
        "msg": "plan",
        "flow": "a->b",
        "partitions": 3,
    }


@pytest.mark.parametrize("formatter", FORMATTERS, ids=["text", "json"])
@given(value=st.text(), number=st.integers() | st.floats() | st.binary())
def test_an_event_is_one_line(formatter: logging.Formatter, value: str, number: Any) -> None:
    assert len(formatter.format(record(value=value, number=number)).splitlines()) == 1


def failed() -> logging.LogRecord:
    try:
        raise ValueError("why")
    except ValueError:
        made = record("defect")
        made.exc_info = sys.exc_info()
        return made


def test_a_defects_traceback_is_kept() -> None:
    assert "ValueError: why" in TextFormatter().format(failed())
    line = JsonFormatter().format(failed())
    assert json.loads(line)["exception"].endswith("ValueError: why") and "\n" not in line


def test_the_last_words_of_a_command_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """They may be a broker's."""
    say_last("2 problems:\n  one: \x1b[2J\r\n  two: \u202eabc")
    assert capsys.readouterr().err == "2 problems:\n  one: ?[2J?\n  two: ?abc\n"


class Clock:
    """A clock that moves only when it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def warning(**fields: object) -> logging.LogRecord:
    return record("no answer", logging.WARNING, **fields)


def test_a_repeated_warning_is_counted_not_repeated() -> None:
    clock = Clock()
    repetitions = Repetitions(clock)
    assert repetitions.filter(warning(flow="a->b"))
    for _ in range(5):
        clock.now += 1
        assert not repetitions.filter(warning(flow="a->b"))
    assert repetitions.filter(warning(flow="a->c")), "another event"
    clock.now = REPEAT_AFTER
    again = warning(flow="a->b")
    assert repetitions.filter(again)
    assert TextFormatter().format(again).endswith("WARNING no answer flow=a->b repeated=5")
    clock.now = 3 * REPEAT_AFTER
    once_more = warning(flow="a->b")
    assert repetitions.filter(once_more) and not hasattr(once_more, "repeated")


def test_other_levels_and_tracebacks_are_never_dropped() -> None:
    repetitions = Repetitions(Clock())
    assert all(repetitions.filter(record("plan")) for _ in range(3))
    assert all(repetitions.filter(failed()) for _ in range(3))


def test_only_so_many_warnings_are_remembered() -> None:
    repetitions = Repetitions(Clock())
    for number in range(REMEMBERED + 1):
        assert repetitions.filter(warning(number=number))
    assert not repetitions.filter(warning(number=REMEMBERED))
    assert repetitions.filter(warning(number=0)), "forgotten"


def test_what_is_remembered_of_a_warning_is_short() -> None:
    """Somebody else may have written what stands in its fields."""
    repetitions = Repetitions(Clock())
    huge = "x" * 2**20 + "\ud800"
    tracemalloc.start()
    try:
        assert all(repetitions.filter(warning(key=f"{huge}{number}")) for number in range(20))
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()
    assert not repetitions.filter(warning(key=f"{huge}0"))


def test_a_value_is_new_when_it_differs_from_the_last_one() -> None:
    reason = OnChange()
    assert [reason.is_new(each) for each in ("away", "away", "refused", "away")] == [True, False, True, True]


def test_an_empty_value_is_new_too() -> None:
    reason = OnChange()
    assert [reason.is_new(each) for each in ("", "", None, None)] == [True, False, True, False]


def test_each_subject_has_a_value_of_its_own() -> None:
    reason = OnChange()
    assert reason.is_new("away", "orders-0")
    assert reason.is_new("away", "orders-1")
    assert not reason.is_new("away", "orders-0")
    assert reason.is_new("away")  # no subject is one, too


def test_a_cleared_value_is_new_again() -> None:
    reason = OnChange()
    assert not reason.clear()
    assert reason.is_new("away")
    assert reason.is_new("away", "orders-0")
    assert reason.clear()
    assert not reason.clear()
    assert reason.is_new("away")
    assert not reason.is_new("away", "orders-0")


def test_added_subjects_are_those_that_the_last_call_did_not_have() -> None:
    topics = OnChange()
    assert topics.added(["b", "a", "b"]) == ["b", "a"]
    assert topics.added(["a", "b", "c"]) == ["c"]
    assert topics.added([]) == []
    assert topics.added(["a"]) == ["a"]
