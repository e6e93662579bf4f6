"""What the demo draws on a terminal and prints elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from mirror.demo.screen import Row, Screen
from mirror.demo.service import _counts
from mirror.status.rates import quantile

ROWS = [Row("orders", 1_000, 990, 0.005, 1.25), Row("total", 1_000, 1_001, None, None)]


class Terminal(io.StringIO):
    """Keeps the lines that a user would see, as far as the demo's few escape sequences go."""

    def isatty(self) -> bool:
        return True

    def seen(self) -> list[str]:
        lines: list[str] = []
        row = 0
        for up, end, text, newline in re.findall(r"\x1b\[(\d+)A|(\x1b\[J)|([^\x1b\n\r]+)|(\n)", self.getvalue()):
            row -= int(up or 0)
            if end:
                del lines[row:]
            elif text and not text.startswith("["):
                del lines[row:]
                lines.append(text)
            elif newline:
                lines += [""] * (row + 1 - len(lines))
                row += 1
        return lines


@pytest.fixture(autouse=True)
def _size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")


def test_events_stay_and_the_table_is_drawn_in_place() -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.say("one")
    screen.show("starting", ROWS)
    screen.show("running", ROWS)
    screen.say("two")
    screen.show("running", ROWS)
    text = "\n".join(terminal.seen())
    assert re.search(
        r"one\n +\d:\d\d  two\n\n +\d:\d\d  service: running\n\n +topic .*\n +orders +1,000 +990 +10 ", text
    )
    assert text.count("orders") == 1 and "starting" not in text
    screen.clear()
    assert len(terminal.seen()) == 2


def test_no_line_is_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    Screen(terminal).show("running", ROWS)
    assert max(map(len, terminal.seen())) < 40


def test_plain_lines_elsewhere() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.say("one")
    screen.show("running", ROWS)
    screen.show("running", ROWS)
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().splitlines()[2:] == [
        " 0:00  running   orders 990 (lag 10, 5.0 ms/1.2 s)  total 1,001 (lag 0, -/-)"
    ]


@pytest.mark.parametrize(
    ("cumulative", "q", "expected"),
    [((0, 0, 0), 0.5, None), ((10, 10, 10), 0.5, 0.5), ((0, 10, 10), 0.5, 1.5), ((0, 0, 10), 0.5, 2.0)],
)
def test_quantiles(cumulative: tuple[int, ...], q: float, expected: float | None) -> None:
    buckets = list(zip((1.0, 2.0, float("inf")), map(float, cumulative), strict=True))
    assert quantile(_counts(buckets), q, (1.0, 2.0)) == expected
