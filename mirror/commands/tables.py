"""Tables and figures for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cell = str | int | float | None


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Columns as wide as what is in them; numbers to the right, None as a dash."""
    cells = [list(row) for row in rows]
    right = [any(isinstance(row[column], int | float) for row in cells) for column in range(len(headers))]
    shown = [list(headers), *([figure(cell) for cell in row] for row in cells)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(headers))]
    lines = (
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        for row in shown
    )
    return "\n".join(line.rstrip() for line in lines)


def figure(cell: Cell) -> str:
    """1234567 as 1,234,567; 12.34 as 12.3."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def size(count: int) -> str:
    """Bytes with a unit: 1.5 GiB."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
