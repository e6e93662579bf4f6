"""The Grafana dashboard's panels drawn from Prometheus' answers, without Grafana: for a picture of it."""

from __future__ import annotations

import math
import time
from typing import Any
from xml.etree.ElementTree import Element

from mirror.text import byte_rate, duration, rate, size
from mirror.web.page.markup import document, table, tag
from tests.harness.prometheus import WINDOW, Prometheus, dashboard_panels, without_variables

CELL = (50, 19)  # pixels of one column and one row of Grafana's grid
COLOURS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#e02f44", "#37872d", "#8ab8ff")
MOST = 8  # series in a chart
STEP = 2.0  # seconds between points

STYLE = """
body { margin: 0; background: #111217; color: #ccccdc; font: 12px system-ui, "DejaVu Sans", sans-serif; }
.panel { position: absolute; overflow: hidden; background: #181b1f; border: 1px solid #24272e; border-radius: 3px; }
.panel, .panel * { box-sizing: border-box; }
h2 { margin: 6px 8px 4px; font-size: 12px; font-weight: 600; }
.stat { text-align: center; font-size: 26px; color: #73bf69; padding-top: 2px; }
.stat.bad { color: #f2495c; }
.legend { padding: 0 8px; font-size: 10px; white-space: nowrap; color: #9da5b4; }
.legend i { display: inline-block; width: 10px; height: 3px; margin: 0 4px 2px 8px; vertical-align: middle; }
table { width: 100%; font-size: 11px; padding: 0 8px; } th, td { text-align: left; font-weight: 400; }
svg text { fill: #9da5b4; font-size: 10px; } svg path { fill: none; stroke-width: 1.3; } svg line { stroke: #24272e; }
"""

Found = list[tuple[str, list[tuple[float, float]]]]  # legend and points of each series


def dashboard(prometheus: Prometheus, minutes: float) -> tuple[bytes, int, int]:
    """The whole dashboard over the last minutes as HTML, its width and height in pixels."""
    end = time.time()
    panels = dashboard_panels()
    drawn = [_panel(panel, prometheus, end - 60 * minutes, end) for panel in panels]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * CELL[1]
    head = tag("head", tag("meta", charset="utf-8"), tag("style", STYLE))
    return document(tag("html", head, tag("body", *drawn))), 24 * CELL[0], height


def _panel(panel: dict[str, Any], prometheus: Prometheus, begin: float, end: float) -> Element:
    at = panel["gridPos"]
    left, top, width, height = at["x"] * CELL[0], at["y"] * CELL[1], at["w"] * CELL[0], at["h"] * CELL[1]
    found: Found = []
    for target in panel["targets"]:
        expression = without_variables(target["expr"], WINDOW)
        for labels, points in prometheus.query_range(expression, begin, end, STEP):
            found.append((_legend(target["legendFormat"], labels), [p for p in points if not math.isnan(p[1])]))
    found = sorted((each for each in found if each[1]), key=lambda each: -each[1][-1][1])
    defaults = panel["fieldConfig"]["defaults"]
    unit = "rps" if panel["type"] == "heatmap" else defaults.get("unit", "short")  # its unit is of the buckets
    if panel["type"] == "stat":
        value = found[0][1][-1][1] if found else 0.0
        bad = any(step["color"] == "red" and value >= step["value"] for step in defaults["thresholds"]["steps"])
        body = [tag("div", _value(value, unit) if found else "no data", class_="stat bad" if bad else "stat")]
    elif panel["type"] == "table":
        rows = [tag("tr", tag("td", name), tag("td", _value(points[-1][1], unit))) for name, points in found]
        body = [table(("", ""), rows[: (at["h"] * CELL[1] - 40) // 17])]
    else:
        body = _chart(found[:MOST], unit, begin, end, width - 2, height - 50)
    style = f"left:{left + 2}px;top:{top + 2}px;width:{width - 4}px;height:{height - 4}px"
    return tag("div", tag("h2", panel["title"]), *body, class_="panel", style=style)


def _legend(pattern: str, labels: dict[str, str]) -> str:
    if not pattern:
        return " ".join(
            labels[name] for name in ("source", "target", "topic", "partition", "version") if name in labels
        )
    for name, value in labels.items():
        pattern = pattern.replace("{{" + name + "}}", value)
    return pattern


def _chart(found: Found, unit: str, begin: float, end: float, width: int, height: int) -> list[Element]:
    top = max((value for _, points in found for _, value in points), default=0.0) or 1.0
    left, bottom = 62, height - 16
    lines: list[Element] = []
    for part in range(5):
        y = bottom - (bottom - 6) * part / 4
        lines.append(tag("line", x1=str(left), x2=str(width - 8), y1=f"{y}", y2=f"{y}"))
        lines.append(tag("text", _value(top * part / 4, unit), x=str(left - 5), y=f"{y + 3}", text_anchor="end"))
    for part in range(1, 4):
        at = begin + (end - begin) * part / 4
        x = left + (width - 8 - left) * part / 4
        clock = time.strftime("%H:%M:%S", time.gmtime(at))
        lines.append(tag("text", clock, x=f"{x}", y=str(height - 3), text_anchor="middle"))
    legend = []
    for index, (name, points) in enumerate(found):
        colour = COLOURS[index % len(COLOURS)]
        path = "L".join(
            f"{left + (at - begin) / (end - begin) * (width - 8 - left):.1f},{bottom - value / top * (bottom - 6):.1f}"
            for at, value in points
        )
        lines.append(tag("path", d=f"M{path}", stroke=colour))
        legend += [tag("i", style=f"background:{colour}"), tag("span", name)]
    return [tag("svg", *lines, width=str(width), height=str(height)), tag("div", *legend, class_="legend")]


def _value(value: float, unit: str) -> str:
    if unit == "s":
        return duration(value) if value else "0"
    if unit == "Bps":
        return byte_rate(value)
    if unit == "bytes":
        return size(value)
    if unit in ("rps", "ops"):
        return rate(value)
    if unit == "percentunit":
        return f"{value:.0%}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"
