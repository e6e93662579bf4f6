"""Tables of what is measured only when it is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.systems import CANDIDATES
from tests.bench.tables import LOAD, Result, cell, grouped, label, table

LEAST = 0.02  # share of a function that is shown


def encrypted(results: Sequence[Result]) -> str:
    columns = {"records/s": ("records_per_s", 0, 1), "CPU s per million": ("cpu_after_start_s_per_million", 2, 1)}
    groups = grouped(results, "encrypted", *LOAD)
    head = ["to three brokers", "system", *(f"{words}{with_}" for words in columns for with_ in ("", ", with TLS"))]
    rows = [
        [label(*key), name, *(cell(some, *of) for of in columns.values() for some in _by_tls(found))]
        for key, group in groups.items()
        for name, found in group.items()
    ]
    return "### TLS on both clusters\n\n" + table(head, rows) if rows else ""


def _by_tls(found: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    return [each for each in found if not each["tls"]], [each for each in found if each["tls"]]


def tuning(results: Sequence[Result]) -> str:
    rows = [
        [words, cell(found, "records_per_s")]
        for group in grouped(results, "tuning").values()
        for words, found in sorted(group.items(), key=lambda item: list(CANDIDATES).index(item[0]))
    ]
    return "### MirrorMaker's best tuning\n\n" + table(["mm2-tuned", "records/s"], rows) if rows else ""


def hand_over(results: Sequence[Result]) -> str:
    columns = {
        "records copied": ("copied", 0, 1),
        "by records, s": ("by_records_s", 1, 1),
        "on the batch path, s after the start": ("batches_s", 1, 1),
        "all copied, s after the start": ("all_s", 1, 1),
    }
    found = [result for result in results if result["measure"] == "hand-over"]
    row = [cell(found, *of) for of in columns.values()]
    return "### A catch-up that begins within a batch\n\n" + table([*columns], [row]) if found else ""


def profile(results: Sequence[Result]) -> str:
    """The functions of all loads that take LEAST of the time, those first that take most."""
    groups = {key: group["mirror-auto"] for key, group in grouped(results, "profile", *LOAD).items()}
    shares = {key: _mean([each["shares"] for each in found]) for key, found in groups.items()}
    all_names = {name for each in shares.values() for name in each}
    functions = sorted((n for n in all_names if _most(shares, n) >= LEAST), key=lambda name: -_most(shares, name))
    rows = [
        [f"`{name}`", *(f"{each[name]:.0%}" if name in each else "" for each in shares.values())] for name in functions
    ]
    head = ["share of a task's samples", *(label(*key) for key in groups)]
    return "### Where a task spends its time\n\n" + table(head, rows) if rows else ""


def _mean(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for each in shares for name in each}
    return {name: sum(each.get(name, 0.0) for each in shares) / len(shares) for name in names}


def _most(shares: Mapping[tuple[Any, ...], Mapping[str, float]], name: str) -> float:
    return max(each.get(name, 0.0) for each in shares.values())


def scale(results: Sequence[Result]) -> str:
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
        [str(tasks), name, *(cell(found, *of) for of in columns.values())]
        for (tasks,), group in sorted(grouped(flat, "scale", "tasks").items())
        for name, found in group.items()
    ]
    head = ["executors, 0.1 cores each", "system", *columns]
    return "### A Spark cluster\n\n" + table(head, sorted(rows, key=lambda row: row[1])) if rows else ""


def groups(results: Sequence[Result]) -> str:
    rows = [
        [f"{r['system']}, {r['state']}", *(f"{r[key]:,}" for key in ("exact", "early", "late", "missing", "again"))]
        for r in results
        if r["measure"] == "groups"
    ]
    head = ["of 40 partitions of 20 groups", "exact", "too early", "too late", "missing", "most records read again"]
    return "### Offsets of consumer groups\n\n" + table(head, rows) if rows else ""


def offset_map(results: Sequence[Result]) -> str:
    rows = [
        [r["kind"], f"{r['records']:,}", f"{r['entries']:,}", f"{r['map_bytes'] / r['data_bytes']:.2%}"]
        for r in results
        if r["measure"] == "map"
    ]
    if not rows:
        return ""
    text = "### The offset map\n\n" + table(["source", "records", "entries", "bytes of the map / of the copy"], rows)
    rates = [
        [name, cell(found, "records_per_s"), cell(found, "cpu_s_per_million", 1)]
        for group in grouped(results, "map-throughput").values()
        for name, found in group.items()
    ]
    return text + "\n\n" + table(["catch-up", "records/s", "CPU seconds per million"], rates)
