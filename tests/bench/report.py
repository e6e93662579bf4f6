"""Tables of the results, for docs/performance.md."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import special_tables
from tests.bench.systems import SYSTEMS
from tests.bench.tables import LOAD, Result, cell, grouped, label, table

BEGIN, END = "<!-- results: written by make bench -->", "<!-- end of results -->"
_MEASURES = {
    "catch-up": "catch-up",
    "replicated": "catch-up to three brokers",
    "encrypted": "catch-up with TLS",
    "profile": "profile",
    "far": "catch-up far away",
    "tuning": "MirrorMaker's tuning",
    "latency": "latency",
    "pauses": "pauses",
    "partitions": "many partitions",
    "many": "ten thousand partitions",
    "hand-over": "a hand-over",
    "scale": "a Spark cluster",
    "groups": "offsets of consumer groups",
    "map": "the offset map",
    "map-throughput": "throughput without it",
}
_HEADINGS = {
    "catch-up": "Catch-up",
    "replicated": "Catch-up to three brokers, replication factor 3",
}
_RATIOS = [
    *(("mirror", other) for other in ("mm2", "mm2-tuned", "limit")),
    *(("mirror-auto", other) for other in ("mirror", "mm2", "mm2-tuned", "limit", "brokers")),
]
_WHAT = (
    "measure",
    *LOAD,
    "rate",
    "busy",
    "interval",
    "kind",
    "state",
    "far",
    "delay_ms",
    "loss",
    "autotuned",
    "tasks",
    "tls",
)
RATES = ("p50_ms", "p99_ms", "p99.9_ms", "max_ms")


def write(page: Path, results: Sequence[Result], machine: str) -> None:
    """Put the tables between the marks of `page`, and the pictures beside it."""
    good = [r for r in results if "failed" not in r]
    when = {measure: sorted(r["at"] for r in results if r["measure"] == measure) for measure in _MEASURES}
    told = "; ".join(f"{words} {_span(when[m][0], when[m][-1])}" for m, words in _MEASURES.items() if when[m])
    words = f"Measured {machine}: {told}. Medians of all rounds, in brackets the lowest and the highest."
    parts = [textwrap.fill(words, 119, break_on_hyphens=False), *(_catch_up(good, each) for each in _HEADINGS)]
    parts += [
        special_tables.encrypted(good),
        _far(good),
        special_tables.tuning(good),
        _latency(good),
        _pauses(good),
        _partitions(good),
        special_tables.hand_over(good),
    ]
    parts += [
        special_tables.profile(good),
        special_tables.scale(good),
        special_tables.groups(good),
        special_tables.offset_map(good),
        _failures(results),
    ]
    text = page.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    page.write_text(f"{head}{BEGIN}\n\n" + "\n\n".join(p for p in parts if p) + f"\n\n{END}{tail}")


def _span(first: str, last: str) -> str:
    """From when to when; of the last moment the day only if it is another one."""
    day, clock = last.split()
    return f"{first} to {clock if first.startswith(day) else last}"


def what(result: Result) -> tuple[Any, ...]:
    """What was measured, whichever system it was."""
    return tuple(result.get(key, 0) for key in _WHAT)


def _catch_up(results: Sequence[Result], measure: str) -> str:
    groups = grouped(results, measure, *LOAD)
    if not groups:
        return ""
    names = _names(groups)
    first = max(groups, key=lambda key: len(groups[key].get("mirror", [])))
    costs = {
        "first record on the target, s after the start": ("start_s", 1, 1),
        "CPU seconds per million records": ("cpu_s_per_million", 1, 1),
        "CPU seconds per million records, without the start": ("cpu_after_start_s_per_million", 2, 1),
        "memory of all processes, MiB": ("memory_bytes", 0, 2**20),
    }
    rows = [[words, *(cell(groups[first].get(n, []), *of) for n in names)] for words, of in costs.items()]
    tables = [*_rates(groups, label), table([label(*first), *names], (row for row in rows if any(row[1:])))]
    return "\n\n".join([f"### {_HEADINGS[measure]}", *tables])


def _far(results: Sequence[Result]) -> str:
    groups = grouped(results, "far", "far", "delay_ms", "loss", "partitions", "autotuned")

    def label(far: str, delay: float, loss: float, partitions: int, autotuned: bool) -> str:
        more = [f"{loss:.0%} lost"] * (loss > 0) + [f"{partitions} partition{'s' * (partitions > 1)}"]
        return ", ".join([f"{far}, {delay:.0f} ms", *more, *["the system's buffers"] * autotuned])

    return "\n\n".join(["### Catch-up far away", *_rates(groups, label)]) if groups else ""


def _names(groups: Mapping[tuple[Any, ...], Mapping[str, object]]) -> list[str]:
    return [name for name in SYSTEMS if any(name in group for group in groups.values())]


def _rates(groups: Mapping[tuple[Any, ...], Mapping[str, Sequence[Result]]], label: Callable[..., str]) -> list[str]:
    """The table of rates, and that of their ratios if there are any. `label` says what a group is, by its key."""
    names = _names(groups)
    pairs = [pair for pair in _RATIOS if set(pair) <= set(names)]
    rates = [[label(*key), *(cell(g.get(n, []), "records_per_s") for n in names)] for key, g in groups.items()]
    ratios = [[label(*key), *(_ratio(g, *pair) for pair in pairs)] for key, g in groups.items()]
    head = ["ratio", *(" / ".join(pair) for pair in pairs)]
    return [table(["records/s", *names], rates), *([table(head, ratios)] if pairs else [])]


def _ratio(group: Mapping[str, Sequence[Result]], of: str, to: str) -> str:
    if not (group.get(of) and group.get(to)):
        return ""
    mine, other = (statistics.median(r["records_per_s"] for r in group[name]) for name in (of, to))
    return f"{mine / other:.2f}"


def _latency(results: Sequence[Result]) -> str:
    groups = grouped(results, "latency", "rate", "busy", "delay_ms")
    rows = [
        [
            f"{rate:,}/s" + ", another topic catches up" * busy + (f", {delay:.0f} ms away" if delay else ""),
            name,
            *(cell(found, key, 1) for key in RATES),
        ]
        for (rate, busy, delay), group in groups.items()
        for name, found in group.items()
    ]
    return (
        "### Replication latency, ms\n\n" + table(["rate", "system", "p50", "p99", "p99.9", "max"], rows)
        if rows
        else ""
    )


def _pauses(results: Sequence[Result]) -> str:
    spans = {"steady": "before", "topic_added": "a topic is added", "after_kill": "kill -9 and started again"}
    rows = [
        [
            words + ", and mirror's epoch ends" * (span == "topic_added" and partitions == 2),
            name,
            *(cell(found, key, 1) for key in RATES),
        ]
        for (partitions,), group in grouped(results, "pauses", "partitions").items()
        for span, words in spans.items()
        for name, every in group.items()
        if (found := [r[span] for r in every if r[span]["records"]])
    ]
    head = ["what running partitions feel, ms", "system", "p50", "p99", "p99.9", "max"]
    return "### Pauses at 1,000 records/s\n\n" + table(head, rows) if rows else ""


def _partitions(results: Sequence[Result]) -> str:
    columns = {
        "memory MiB": ("memory_bytes", 0, 2**20),
        "cores used": ("cores", 2, 1),
        "threads": ("threads", 0, 1),
        "connections": ("connections", 0, 1),
        "p50 ms": ("p50_ms", 1, 1),
        "p99 ms": ("p99_ms", 1, 1),
    }
    every = [result for result in results if result["measure"] in ("partitions", "many")]
    rows = [
        [f"{count:,}, {words}", name, *(cell([each[state] for each in found], *of) for of in columns.values())]
        for measure in ("partitions", "many")
        for (count, interval), group in grouped(every, measure, "partitions", "interval").items()
        for state, words in (("idle", "idle"), ("active", _active(interval)))
        for name, found in group.items()
    ]
    return "### Many partitions\n\n" + table(["partitions", "system", *columns], rows) if rows else ""


def _active(interval: float) -> str:
    return f"a record each {interval:.0f} s" if interval > 1 else "active"


def _failures(results: Sequence[Result]) -> str:
    told = ("rate", "busy", "delay_ms", "loss", *LOAD)
    failed = [
        f"- {r['measure']} ({', '.join(f'{key} {r[key]}' for key in told if r.get(key))}), {r['system']}, "
        f"round {r['round']}: {r['failed'].splitlines()[0]}"
        for r in results
        if "failed" in r
    ]
    return "### Runs that did not count\n\n" + "\n".join(failed) if failed else ""
