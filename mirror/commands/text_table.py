"""Tables of text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mirror.text import number, printable

WIDEST = 249  # characters of a column: the longest name of a topic
LONGEST = 1_000  # characters of a cell: the name of a group may have 32,767
Cell = str | int | float | None


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table whose columns are as wide as their widest cell; numbers are aligned to the right, None is a dash.

    A cell stays within its line, and can't steer the terminal: whoever may write to a cluster chooses names there. One
    that is longer than any topic's name does not widen the rows of all others.
    """
    cells = [list(row) for row in rows]
    right = [any(isinstance(row[column], int | float) for row in cells) for column in range(len(headers))]
    shown = [list(headers), *([_text(cell) for cell in row] for row in cells)]
    widths = [min(WIDEST, max(len(row[column]) for row in shown)) for column in range(len(headers))]
    lines = (
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        for row in shown
    )
    return "\n".join(line.rstrip() for line in lines)


def _text(cell: Cell) -> str:
    return printable(cell[:LONGEST]) if isinstance(cell, str) else number(cell)
