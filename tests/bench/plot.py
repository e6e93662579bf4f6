"""The picture of the results, for docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot as plt

from tests.bench.systems import SYSTEMS
from tests.bench.tables import Result, grouped
from tests.harness.plots import plot_style

COLORS = dict(zip(SYSTEMS, ("#2563eb", "#16a34a", "#9ca3af", "#d97706", "#111827", "#7c3aed"), strict=True))


def draw(file: Path, results: Sequence[Result]) -> None:
    """Draw catch-up and latency into an SVG file."""
    plot_style()
    good = [r for r in results if "failed" not in r]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    groups = grouped(good, "catch-up", "size", "partitions", "compression", "headers", "batch_bytes")
    sizes = sorted(key for key in groups if key[1:] == (4, "none", False, 0))
    names = [name for name in SYSTEMS if any(name in groups[key] for key in sizes)]
    for place, name in enumerate(names):
        heights = [
            statistics.median(r["bytes_per_s"] for r in groups[key].get(name, [{"bytes_per_s": float("nan")}]))
            for key in sizes
        ]
        spots = [x + (place - (len(names) - 1) / 2) * 0.8 / len(names) for x in range(len(sizes))]
        left.bar(spots, [h / 1e6 for h in heights], 0.76 / len(names), color=COLORS[name], label=name)
    left.set_xticks(range(len(sizes)), [f"{key[0]:,} B" for key in sizes])
    left.set_ylabel("catch-up, MB/s")
    left.legend(frameon=False)
    live = {key: g for key, g in grouped(good, "latency", "rate", "busy", "delay_ms").items() if key[1:] == (False, 0)}
    for name in SYSTEMS:
        for share, style in (("p50_ms", "o-"), ("p99_ms", "s--")):
            line = [
                (key[0], statistics.median(r[share] for r in g[name])) for key, g in sorted(live.items()) if g.get(name)
            ]
            if line:
                right.plot(*zip(*line, strict=True), style, color=COLORS[name], label=f"{name} {share[:3]}")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("records/s")
    right.set_ylabel("replication latency, ms")
    right.legend(frameon=False, ncols=2)
    figure.savefig(file, metadata={"Date": None})
