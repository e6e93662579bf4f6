"""Prints the demo's events and, below them, a table that is redrawn in place on a terminal."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

import click

from mirror.text import duration

PLAIN_INTERVAL = 5.0  # seconds between lines where the table can't be redrawn
MARGIN = " " * 7  # aligns lines with the events' text


@dataclass(frozen=True, slots=True)
class Row:
    """One topic's row in the table."""

    topic: str
    written: int
    copied: int
    p50: float | None  # seconds
    p99: float | None

    @property
    def lag(self) -> int:
        """Records in flight; 0 if copied ones are known before the writer has counted them."""
        return max(0, self.written - self.copied)


class Screen:
    """Draws each frame in one write, so that the terminal does not flicker."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self._terminal and "NO_COLOR" not in os.environ
        self._begun = time.monotonic()
        self._table: list[str] = []  # the lines that are on the terminal now
        self._plain_at = 0.0

    @property
    def clock(self) -> str:
        """Minutes and seconds since the beginning."""
        seconds = int(time.monotonic() - self._begun)
        return f"{seconds // 60}:{seconds % 60:02}"

    def say(self, text: str, colour: str | None = None) -> None:
        """Print an event above the table."""
        first, *more = text.splitlines()
        clock = self._styled(f"{self.clock:>5}", dim=True)
        lines = [f"{clock}  {self._styled(first, fg=colour)}", *(f"{'':5}  {line}" for line in more)]
        self._draw(lines, self._table)

    def line(self, text: str = "", bold: bool = False, colour: str | None = None) -> None:
        """Print a line without the time."""
        self._draw([self._styled(text, bold=bold, fg=colour)], self._table)

    def show(self, state: str, rows: Sequence[Row]) -> None:
        """Redraw the table, or print it as a line every few seconds where that is not possible."""
        size = shutil.get_terminal_size()
        if self._terminal and size.lines > len(rows) + 6:
            self._draw([], [self._fitted(line, size.columns) for line in self._lines(state, rows)])
        elif time.monotonic() >= self._plain_at:
            if not self._plain_at:
                self._draw([f"{MARGIN}from now on: state, and records on backup (lag, latency p50/p99) by topic"], [])
            self._plain_at = time.monotonic() + PLAIN_INTERVAL
            topics = "  ".join(
                f"{r.topic} {r.copied:,} (lag {r.lag:,}, {duration(r.p50)}/{duration(r.p99)})" for r in rows
            )
            self._draw([f"{self.clock:>5}  {state:<8}  {topics}"], [])

    def clear(self) -> None:
        """Remove the table."""
        self._draw([], [])

    def _lines(self, state: str, rows: Sequence[Row]) -> list[tuple[str, bool]]:
        """The table's lines, each with True if it is a heading."""
        body = [
            f"{MARGIN}{r.topic:<10}{r.written:>12,}{r.copied:>12,}{r.lag:>9,}{duration(r.p50):>14}{duration(r.p99):>10}"
            for r in rows
        ]
        heads = f"{MARGIN}{'topic':<10}{'written':>12}{'on backup':>12}{'lag':>9}{'latency p50':>14}{'p99':>10}"
        return [
            ("", False),
            (f"{self.clock:>5}  service: {state}", True),
            ("", False),
            (heads, True),
            *((line, False) for line in body),
        ]

    def _fitted(self, line: tuple[str, bool], columns: int) -> str:
        """Cut a line to the terminal's width: if it wrapped, the next frame would start at the wrong height."""
        text, heading = line
        return self._styled(text[: columns - 1], bold=heading)

    def _draw(self, above: list[str], table: list[str]) -> None:
        """Replace the table by lines that stay, and a new table below them."""
        if not self._terminal:
            self._out.write("".join(f"{line}\n" for line in above))
        else:
            up = f"\x1b[{len(self._table)}A" if self._table else ""
            lines = "".join(f"{line}\x1b[K\n" for line in (*above, *table))
            self._out.write(f"\x1b[?2026h\r{up}{lines}\x1b[J\x1b[?2026l")
            self._table = table
        self._out.flush()

    def _styled(self, text: str, bold: bool = False, dim: bool = False, fg: str | None = None) -> str:
        return click.style(text, bold=bold or None, dim=dim or None, fg=fg) if self._colour and text else text
