"""Tables of the results, for docs/performance.md."""

from __future__ import annotations

import statistics
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.systems import CANDIDATES, SYSTEMS

BEGIN, END = "<!-- results: written by make bench -->", "<!-- end of results -->"
Result = dict[str, Any]
_MEASURES = {
    "catch-up": "catch-up",
    "replicated": "catch-up to three brokers",
    "encrypted": "catch-up with TLS",
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
LOAD = ("size", "partitions", "compression", "headers", "batch_bytes")
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
        _encrypted(good),
        _far(good),
        _tuning(good),
        _latency(good),
        _pauses(good),
        _partitions(good),
        _hand_over(good),
    ]
    parts += [_scale(good), _groups(good), _map(good), _failures(results)]
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


def load_label(load: Mapping[str, Any]) -> str:
    """What a load is, in words."""
    return _label(*(load[key] for key in LOAD))


def grouped(results: Iterable[Result], measure: str, *keys: str) -> dict[tuple[Any, ...], dict[str, list[Result]]]:
    groups: dict[tuple[Any, ...], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["measure"] == measure:
            groups[tuple(result.get(key, 0) for key in keys)][result["system"]].append(result)
    return groups


def _cell(results: Sequence[Result], key: str, digits: int = 0, unit: float = 1) -> str:
    values = [result[key] / unit for result in results if key in result]
    if not values:
        return ""
    text = f"{statistics.median(values):,.{digits}f}"
    return f"{text} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if len(values) > 1 else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


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
    rows = [[words, *(_cell(groups[first].get(n, []), *of) for n in names)] for words, of in costs.items()]
    tables = [*_rates(groups, _label), _table([_label(*first), *names], (row for row in rows if any(row[1:])))]
    return "\n\n".join([f"### {_HEADINGS[measure]}", *tables])


def _far(results: Sequence[Result]) -> str:
    groups = grouped(results, "far", "far", "delay_ms", "loss", "partitions", "autotuned")

    def label(far: str, delay: float, loss: float, partitions: int, autotuned: bool) -> str:
        more = [f"{loss:.0%} lost"] * (loss > 0) + [f"{partitions} partition{'s' * (partitions > 1)}"]
        return ", ".join([f"{far}, {delay:.0f} ms", *more, *["the system's buffers"] * autotuned])

    return "\n\n".join(["### Catch-up far away", *_rates(groups, label)]) if groups else ""


def _encrypted(results: Sequence[Result]) -> str:
    columns = {"records/s": ("records_per_s", 0, 1), "CPU s per million": ("cpu_after_start_s_per_million", 2, 1)}
    groups = grouped(results, "encrypted", *LOAD)
    head = ["to three brokers", "system", *(f"{words}{with_}" for words in columns for with_ in ("", ", with TLS"))]
    rows = [
        [_label(*key), name, *(_cell(some, *of) for of in columns.values() for some in _by_tls(found))]
        for key, group in groups.items()
        for name, found in group.items()
    ]
    return "### TLS on both clusters\n\n" + _table(head, rows) if rows else ""


def _by_tls(found: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    return [each for each in found if not each["tls"]], [each for each in found if each["tls"]]


def _names(groups: Mapping[tuple[Any, ...], Mapping[str, object]]) -> list[str]:
    return [name for name in SYSTEMS if any(name in group for group in groups.values())]


def _rates(groups: Mapping[tuple[Any, ...], Mapping[str, Sequence[Result]]], label: Callable[..., str]) -> list[str]:
    """The table of rates, and that of their ratios if there are any. `label` says what a group is, by its key."""
    names = _names(groups)
    pairs = [pair for pair in _RATIOS if set(pair) <= set(names)]
    rates = [[label(*key), *(_cell(g.get(n, []), "records_per_s") for n in names)] for key, g in groups.items()]
    ratios = [[label(*key), *(_ratio(g, *pair) for pair in pairs)] for key, g in groups.items()]
    head = ["ratio", *(" / ".join(pair) for pair in pairs)]
    return [_table(["records/s", *names], rates), *([_table(head, ratios)] if pairs else [])]


def _label(size: int, partitions: int, compression: str, headers: bool, batch_bytes: int) -> str:
    more = [compression] * (compression != "none") + ["headers"] * headers
    if batch_bytes:
        more.append(f"batches of {batch_bytes // 2**10} KiB" if batch_bytes > size else "one record in each batch")
    return ", ".join([f"{size:,} B", f"{partitions} partition{'s' * (partitions > 1)}", *more])


def _ratio(group: Mapping[str, Sequence[Result]], of: str, to: str) -> str:
    if not (group.get(of) and group.get(to)):
        return ""
    mine, other = (statistics.median(r["records_per_s"] for r in group[name]) for name in (of, to))
    return f"{mine / other:.2f}"


def _tuning(results: Sequence[Result]) -> str:
    rows = [
        [words, _cell(found, "records_per_s")]
        for group in grouped(results, "tuning").values()
        for words, found in sorted(group.items(), key=lambda item: list(CANDIDATES).index(item[0]))
    ]
    return "### MirrorMaker's best tuning\n\n" + _table(["mm2-tuned", "records/s"], rows) if rows else ""


def _latency(results: Sequence[Result]) -> str:
    groups = grouped(results, "latency", "rate", "busy", "delay_ms")
    rows = [
        [
            f"{rate:,}/s" + ", another topic catches up" * busy + (f", {delay:.0f} ms away" if delay else ""),
            name,
            *(_cell(found, key, 1) for key in RATES),
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
            *(_cell(found, key, 1) for key in RATES),
        ]
        for (partitions,), group in grouped(results, "pauses", "partitions").items()
        for span, words in spans.items()
        for name, every in group.items()
        if (found := [r[span] for r in every if r[span]["records"]])
    ]
    head = ["what running partitions feel, ms", "system", "p50", "p99", "p99.9", "max"]
    return "### Pauses at 1,000 records/s\n\n" + _table(head, rows) if rows else ""


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
        [f"{count:,}, {words}", name, *(_cell([each[state] for each in found], *of) for of in columns.values())]
        for measure in ("partitions", "many")
        for (count, interval), group in grouped(every, measure, "partitions", "interval").items()
        for state, words in (("idle", "idle"), ("active", _active(interval)))
        for name, found in group.items()
    ]
    return "### Many partitions\n\n" + _table(["partitions", "system", *columns], rows) if rows else ""


def _active(interval: float) -> str:
    return f"a record each {interval:.0f} s" if interval > 1 else "active"


def _hand_over(results: Sequence[Result]) -> str:
    columns = {
        "records copied": ("copied", 0, 1),
        "by records, s": ("by_records_s", 1, 1),
        "on the batch path, s after the start": ("batches_s", 1, 1),
        "all copied, s after the start": ("all_s", 1, 1),
    }
    found = [result for result in results if result["measure"] == "hand-over"]
    row = [_cell(found, *of) for of in columns.values()]
    return "### A catch-up that begins within a batch\n\n" + _table([*columns], [row]) if found else ""


def _scale(results: Sequence[Result]) -> str:
    flat = [
        {**r, **{f"{state}_{key}": value for state in ("idle", "active") for key, value in r[state].items()}}
        for r in results
        if r["measure"] == "scale"
    ]
    columns = {
        "MB/s": ("bytes_per_s", 1, 1e6),
        "executors' cores": ("active_executor_cores", 2, 1),
        "of them when paused": ("idle_executor_cores", 2, 1),
        "service's cores": ("active_service_cores", 2, 1),
        "when paused": ("idle_service_cores", 2, 1),
        "reports/s": ("active_reports_per_s", 1, 1),
        "machine's cores": ("active_machine_cores", 2, 1),
    }
    rows = [
        [str(tasks), name, *(_cell(found, *of) for of in columns.values())]
        for (tasks,), group in sorted(grouped(flat, "scale", "tasks").items())
        for name, found in group.items()
    ]
    head = ["executors, 0.1 cores each", "system", *columns]
    return "### A Spark cluster\n\n" + _table(head, sorted(rows, key=lambda row: row[1])) if rows else ""


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
        [name, _cell(found, "records_per_s"), _cell(found, "cpu_s_per_million", 1)]
        for group in grouped(results, "map-throughput").values()
        for name, found in group.items()
    ]
    return text + "\n\n" + _table(["catch-up", "records/s", "CPU seconds per million"], rates)


def _failures(results: Sequence[Result]) -> str:
    told = ("rate", "busy", "delay_ms", "loss", *LOAD)
    failed = [
        f"- {r['measure']} ({', '.join(f'{key} {r[key]}' for key in told if r.get(key))}), {r['system']}, "
        f"round {r['round']}: {r['failed'].splitlines()[0]}"
        for r in results
        if "failed" in r
    ]
    return "### Runs that did not count\n\n" + "\n".join(failed) if failed else ""
