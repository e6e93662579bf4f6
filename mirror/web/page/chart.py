"""Small charts as inline SVG without any text. The style stretches them; the page has their captions."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from mirror.web.page.markup import tag

WIDTH, HEIGHT = 300, 60
Series = Sequence[float | None]  # oldest first, None for a gap


def chart(series: dict[str, Series], points: int, label: str) -> Element:
    """A chart with a line for each series, named by its CSS class.

    It is `points` wide, with the newest point at the right edge, and reaches from 0 to the highest value.
    """
    top = highest(*series.values()) or 1.0
    drawn = [
        tag("path", d=path, class_=f"{part} {name}", vector_effect="non-scaling-stroke")
        for name, values in series.items()
        for part, path in (("area", _area(values, points, top)), ("line", _line(values, points, top)))
        if path
    ]
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 -2 {WIDTH} {HEIGHT + 3}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def highest(*series: Series) -> float:
    """The highest value of all series; 0 if there is none."""
    return max((value for values in series for value in values if value is not None), default=0.0)


def _runs(values: Series, points: int, top: float) -> list[list[tuple[float, float]]]:
    """The parts of a series between its gaps, as points of the picture."""
    step = WIDTH / max(1, points - 1)
    first = WIDTH - step * (len(values) - 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((first + index * step, HEIGHT - HEIGHT * value / top))
    return [run for run in runs if run]


def _line(values: Series, points: int, top: float) -> str:
    # A single point gets a width, or it would be invisible.
    return "".join(f"M{_path(run)}" + ("h.1" if len(run) == 1 else "") for run in _runs(values, points, top))


def _area(values: Series, points: int, top: float) -> str:
    return "".join(
        f"M{run[0][0]:.1f},{HEIGHT}L{_path(run)}L{run[-1][0]:.1f},{HEIGHT}Z" for run in _runs(values, points, top)
    )


def _path(run: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f},{y:.1f}" for x, y in run)
