"""Tables and pictures of the results, for docs/performance.md."""

from __future__ import annotations

import statistics
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from tests.bench.systems import CANDIDATES, SYSTEMS
from tests.harness.plots import plot_style

BEGIN, END = "<!-- results: written by make bench -->", "<!-- end of results -->"
Result = dict[str, Any]
COLORS = dict(zip(SYSTEMS, ("#2563eb", "#9ca3af", "#d97706", "#111827"), strict=True))
_MEASURES = {
    "catch-up": "catch-up",
    "tuning": "MirrorMaker's tuning",
    "latency": "latency",
    "pauses": "pauses",
    "partitions": "many partitions",
    "groups": "offsets of consumer groups",
    "map": "the offset map",
    "map-throughput": "throughput without it",
}
RATES = ("p50_ms", "p99_ms", "p99.9_ms", "max_ms")


def write(page: Path, results: Sequence[Result], machine: str) -> None:
    """Put the tables between the marks of `page`, and the pictures beside it."""
    good = [r for r in results if "failed" not in r]
    when = {measure: sorted(r["at"] for r in results if r["measure"] == measure) for measure in _MEASURES}
    told = "; ".join(f"{words} {when[m][0]} to {when[m][-1][-5:]}" for m, words in _MEASURES.items() if when[m])
    words = f"Measured {machine}: {told}. Medians of all rounds, in brackets the lowest and the highest."
    parts = [textwrap.fill(words, 119, break_on_hyphens=False), _catch_up(good), _tuning(good)]
    parts += [_latency(good), _pauses(good), _partitions(good), _groups(good), _map(good), _failures(results)]
    text = page.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    page.write_text(f"{head}{BEGIN}\n\n" + "\n\n".join(p for p in parts if p) + f"\n\n{END}{tail}")
    _plot(good, page.with_name("performance.svg"))


def _grouped(results: Iterable[Result], measure: str, *keys: str) -> dict[tuple[Any, ...], dict[str, list[Result]]]:
    groups: dict[tuple[Any, ...], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["measure"] == measure:
            groups[tuple(result[key] for key in keys)][result["system"]].append(result)
    return groups


def _cell(results: Sequence[Result], of: Callable[[Result], float], digits: int = 0) -> str:
    values = [of(result) for result in results]
    if not values:
        return ""
    text = f"{statistics.median(values):,.{digits}f}"
    return f"{text} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if len(values) > 1 else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _catch_up(results: Sequence[Result]) -> str:
    keys = ("size", "partitions", "compression", "headers")
    groups = _grouped(results, "catch-up", *keys)
    if not groups:
        return ""
    names = [n for n in SYSTEMS if any(n in g for g in groups.values())]

    rates = [
        [_label(*key), *(_cell(g.get(n, []), lambda r: r["records_per_s"]) for n in names), *_ratios(g)]
        for key, g in groups.items()
    ]
    first = max(groups, key=lambda key: len(groups[key].get("mirror", [])))
    main = groups[first]
    costs = [
        ["first record on the target, s after the start", *(_cell(main[n], lambda r: r["start_s"], 1) for n in names)],
        ["CPU seconds per million records", *(_cell(main[n], lambda r: r["cpu_s_per_million"], 1) for n in names)],
        ["memory of all processes, MiB", *(_cell(main[n], lambda r: r["memory_bytes"] / 2**20) for n in names)],
    ]
    head = ["records/s", *names, "mirror / mm2", "mirror / mm2-tuned", "mirror / limit"]
    return "### Catch-up\n\n" + _table(head, rates) + "\n\n" + _table([_label(*first), *names], costs)


def _label(size: int, partitions: int, compression: str, headers: bool) -> str:
    more = [compression] * (compression != "none") + ["headers"] * headers
    return ", ".join([f"{size:,} B", f"{partitions} partition{'s' * (partitions > 1)}", *more])


def _tuning(results: Sequence[Result]) -> str:
    rows = [
        [words, _cell(found, lambda r: r["records_per_s"])]
        for group in _grouped(results, "tuning").values()
        for words, found in sorted(group.items(), key=lambda item: list(CANDIDATES).index(item[0]))
    ]
    return "### MirrorMaker's best tuning\n\n" + _table(["mm2-tuned", "records/s"], rows) if rows else ""


def _ratios(group: dict[str, list[Result]]) -> list[str]:
    def median(name: str) -> float:
        return statistics.median(r["records_per_s"] for r in group[name]) if group.get(name) else 0.0

    return [f"{median('mirror') / median(n):.2f}" if median(n) else "" for n in ("mm2", "mm2-tuned", "limit")]


def _latency(results: Sequence[Result]) -> str:
    groups = _grouped(results, "latency", "rate", "busy", "delay_ms")
    rows = [
        [
            f"{rate:,}/s" + ", another topic catches up" * busy + (f", {delay:.0f} ms away" if delay else ""),
            name,
            *(_cell(found, lambda r, k=k: r[k], 1) for k in RATES),  # type: ignore[misc]
        ]
        for (rate, busy, delay), group in groups.items()
        for name, found in group.items()
    ]
    return (
        "### Replication latency, ms\n\n" + _table(["rate", "system", "p50", "p99", "p99.9", "max"], rows)
        if rows
        else ""
    )


def _pauses(results: Sequence[Result]) -> str:
    spans = {"steady": "before", "topic_added": "a topic is added", "after_kill": "kill -9 and started again"}
    rows = [
        [
            words + ", and mirror's epoch ends" * (span == "topic_added" and partitions == 2),
            name,
            *(_cell(found, lambda r, s=span, k=k: r[s][k], 1) for k in RATES),  # type: ignore[misc]
        ]
        for (partitions,), group in _grouped(results, "pauses", "partitions").items()
        for span, words in spans.items()
        for name, every in group.items()
        if (found := [r for r in every if r[span]["records"]])
    ]
    head = ["what running partitions feel, ms", "system", "p50", "p99", "p99.9", "max"]
    return "### Pauses at 1,000 records/s\n\n" + _table(head, rows) if rows else ""


def _partitions(results: Sequence[Result]) -> str:
    rows = [
        [
            f"{count:,}, {state}",
            name,
            _cell(found, lambda r, s=state: r[s]["memory_bytes"] / 2**20),  # type: ignore[misc]
            _cell(found, lambda r, s=state: r[s]["cores"], 2),  # type: ignore[misc]
            _cell(found, lambda r, s=state: r[s]["threads"]),  # type: ignore[misc]
        ]
        for (count,), group in _grouped(results, "partitions", "partitions").items()
        for state in ("idle", "active")
        for name, found in group.items()
    ]
    head = ["partitions", "system", "memory MiB", "cores used", "threads"]
    return "### Many partitions\n\n" + _table(head, rows) if rows else ""


def _groups(results: Sequence[Result]) -> str:
    rows = [
        [f"{r['system']}, {r['state']}", *(f"{r[key]:,}" for key in ("exact", "early", "late", "missing", "again"))]
        for r in results
        if r["measure"] == "groups"
    ]
    head = ["of 40 partitions of 20 groups", "exact", "too early", "too late", "missing", "most records read again"]
    return "### Offsets of consumer groups\n\n" + _table(head, rows) if rows else ""


def _map(results: Sequence[Result]) -> str:
    rows = [
        [r["kind"], f"{r['records']:,}", f"{r['entries']:,}", f"{r['map_bytes'] / r['data_bytes']:.2%}"]
        for r in results
        if r["measure"] == "map"
    ]
    if not rows:
        return ""
    text = "### The offset map\n\n" + _table(["source", "records", "entries", "bytes of the map / of the copy"], rows)
    rates = [
        [name, _cell(found, lambda r: r["records_per_s"]), _cell(found, lambda r: r["cpu_s_per_million"], 1)]
        for group in _grouped(results, "map-throughput").values()
        for name, found in group.items()
    ]
    return text + "\n\n" + _table(["catch-up", "records/s", "CPU seconds per million"], rates)


def _failures(results: Sequence[Result]) -> str:
    told = ("rate", "busy", "delay_ms", "size", "partitions", "compression", "headers")
    failed = [
        f"- {r['measure']} ({', '.join(f'{key} {r[key]}' for key in told if r.get(key))}), {r['system']}, "
        f"round {r['round']}: {r['failed'].splitlines()[0]}"
        for r in results
        if "failed" in r
    ]
    return "### Runs that did not count\n\n" + "\n".join(failed) if failed else ""


def _plot(results: Sequence[Result], file: Path) -> None:
    plot_style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    groups = _grouped(results, "catch-up", "size", "partitions", "compression", "headers")
    sizes = sorted(key for key in groups if key[1:] == (4, "none", False))
    for place, name in enumerate(SYSTEMS):
        heights = [
            statistics.median(r["bytes_per_s"] for r in groups[key].get(name, [{"bytes_per_s": float("nan")}]))
            for key in sizes
        ]
        spots = [x + (place - 1.5) * 0.2 for x in range(len(sizes))]
        left.bar(spots, [h / 1e6 for h in heights], 0.19, color=COLORS[name], label=name)
    left.set_xticks(range(len(sizes)), [f"{key[0]:,} B" for key in sizes])
    left.set_ylabel("catch-up, MB/s")
    left.legend(frameon=False)
    live = {
        key: g for key, g in _grouped(results, "latency", "rate", "busy", "delay_ms").items() if key[1:] == (False, 0)
    }
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
