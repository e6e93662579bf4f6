"""The tables of docs/performance.md."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mirror
from tests.bench import profile, report
from tests.bench.catch_up import Load
from tests.bench.distance import Distance
from tests.bench.tables import Result

DOCS = Path(__file__).parents[3] / "docs"
SMALL = [Load(3_000_000, batch_bytes=16_384, compression="lz4"), Load(300_000, batch_bytes=1)]


def copied(load: Load, system: str, rate: float, measure: str = "catch-up", **more: Any) -> Result:
    figures = {"records_per_s": rate, "start_s": 10.0, "cpu_s_per_million": 3.0, "memory_bytes": 2**30}
    figures["cpu_after_start_s_per_million"] = 240 / rate
    return {"measure": measure, **asdict(load), "system": system, "at": "2026-11-27 20:00", **figures, **more}


def written(directory: Path, results: list[Result]) -> list[str]:
    page = directory / "page.md"
    page.write_text(f"{report.BEGIN}\n{report.END}\n")
    report.write(page, results, "here")
    return page.read_text().splitlines()


def test_the_page_has_the_tables_of_its_results(tmp_path: Path) -> None:
    """Whoever changes what writes them writes them again."""
    page, measured = tmp_path / "performance.md", json.loads((DOCS / "performance.json").read_text())
    page.write_text((DOCS / "performance.md").read_text())
    report.write(page, measured["results"], measured["machine"]["words"])
    assert page.read_text() == (DOCS / "performance.md").read_text()


def test_catch_ups_are_told_by_the_batches_of_the_source_and_compared(tmp_path: Path) -> None:
    rates = {"mirror": 100.0, "mirror-auto": 400.0, "brokers": 800.0}
    lines = written(tmp_path, [copied(load, name, rate) for load in SMALL for name, rate in rates.items()])
    lz4, single = "200 B, 4 partitions, lz4, batches of 16 KiB", "200 B, 4 partitions, one record in each batch"
    for name in (lz4, single):
        assert f"| {name} | 100 | 400 | 800 |" in lines
        assert f"| {name} | 4.00 | 0.50 |" in lines
    assert "| ratio | mirror-auto / mirror | mirror-auto / brokers |" in lines
    assert "| CPU seconds per million records, without the start | 2.40 | 0.60 | 0.30 |" in lines


def test_each_kind_of_catch_up_has_tables_of_its_own(tmp_path: Path) -> None:
    results = [copied(Load(10), "mirror-auto", 7.0, measure) for measure in ("catch-up", "replicated")]
    lossy = Distance(0.08, Load(10), loss=0.01)
    back = Distance(0.02, Load(10, partitions=1), source=True, autotuned=True)
    results += [copied(each.load, "mirror-auto", 8.0, "far", **each.told) for each in (lossy, back)]
    lines = written(tmp_path, results)
    assert lines.count("| 200 B, 4 partitions | 7 |") == 2
    assert "| target, 80 ms, 1% lost, 4 partitions | 8 |" in lines
    assert "| source, 20 ms, 1 partition, the system's buffers | 8 |" in lines
    assert [line for line in lines if line.startswith("###")] == [
        "### Catch-up",
        "### Catch-up to three brokers, replication factor 3",
        "### Catch-up far away",
    ]


def test_a_run_that_did_not_count_is_named(tmp_path: Path) -> None:
    good, bad = (
        copied(SMALL[0], "mirror", 1.0, round=1),
        copied(SMALL[0], "mirror-auto", 1.0, round=2, failed="why\nat"),
    )
    lines = written(tmp_path, [good, bad])
    told = "size 200, partitions 4, compression lz4, batch_bytes 16384"
    assert f"- catch-up ({told}), mirror-auto, round 2: why" in lines
    assert "| records/s | mirror |" in lines


def test_partitions_that_get_few_records(tmp_path: Path) -> None:
    used = {"memory_bytes": 150 * 2**20, "cores": 0.5, "threads": 20, "connections": 14}
    what = {"system": "mirror-auto", "at": "2026-11-27 20:00", "idle": used}
    found: list[Result] = [
        {**what, "measure": measure, "partitions": count, **interval, "active": {**used, "p50_ms": 7.0, "p99_ms": 30.5}}
        for measure, count, interval in (("many", 10_000, {"interval": 20.0}), ("partitions", 1_000, {"interval": 1.0}))
    ]
    lines = written(tmp_path, found)
    assert "| 1,000, active | mirror-auto | 150 | 0.50 | 20 | 14 | 7.0 | 30.5 |" in lines
    assert "| 10,000, idle | mirror-auto | 150 | 0.50 | 20 | 14 |  |  |" in lines
    assert "| 10,000, a record each 20 s | mirror-auto | 150 | 0.50 | 20 | 14 | 7.0 | 30.5 |" in lines


def test_catch_ups_that_begin_within_a_batch(tmp_path: Path) -> None:
    what = {"measure": "hand-over", "system": "mirror-auto", "at": "2026-11-27 20:00", "copied": 9_999_900}
    lines = written(tmp_path, [{**what, "by_records_s": s, "batches_s": 12.0, "all_s": 30.0} for s in (1.5, 2.5)])
    begin = "| 9,999,900 (9,999,900 to 9,999,900) | 2.0 (1.5 to 2.5) | 12.0 "
    assert any(line.startswith(begin) for line in lines), lines


def test_only_what_was_measured_again_replaces_what_was_measured_before() -> None:
    one, other = copied(SMALL[0], "mirror", 1.0), copied(SMALL[1], "mirror", 1.0)
    assert report.what(one) == report.what(copied(SMALL[0], "mirror-auto", 2.0))
    assert report.what(one) != report.what(other)
    assert report.what(one) != report.what(copied(SMALL[0], "mirror", 1.0, "replicated"))


def test_what_tls_costs(tmp_path: Path) -> None:
    load = {"size": 200, "partitions": 4, "compression": "lz4", "headers": False, "batch_bytes": 16384}
    what = {"measure": "encrypted", "system": "mirror-auto", "at": "2026-11-29 20:00", **load}
    rates = {False: (2_000_000, 0.3), True: (1_000_000, 0.7)}
    found: list[Result] = [
        {**what, "tls": tls, "records_per_s": rate, "cpu_after_start_s_per_million": cpu}
        for tls, (rate, cpu) in rates.items()
    ]
    lines = written(tmp_path, found)
    row = "| 200 B, 4 partitions, lz4, batches of 16 KiB | mirror-auto | 2,000,000 | 1,000,000 | 0.30 | 0.70 |"
    assert row in lines


def test_where_a_task_spends_its_time(tmp_path: Path) -> None:
    def found(load: Load, *shares: dict[str, float]) -> list[Result]:
        what = {"measure": "profile", "system": "mirror-auto", "at": "2026-11-29 20:00", **asdict(load)}
        return [{**what, "shares": each} for each in shares]

    both = found(SMALL[0], {"wire/a.py:f": 0.5, "wire/a.py:g": 0.25}, {"wire/a.py:f": 0.25})
    lines = written(tmp_path, both + found(SMALL[1], {"wire/a.py:g": 0.75}))
    at = lines.index("| `wire/a.py:g` | 12% | 75% |")
    assert lines[at + 1] == "| `wire/a.py:f` | 38% |  |"


def test_names_of_functions_in_a_profile() -> None:
    ours = Path(mirror.__file__).parent / "wire" / "stream.py"
    assert profile.named(f"write ({ours}:53)") == "wire/stream.py:write"
    assert profile.named("select (/usr/lib/python3/selectors.py:468)") == "selectors.py:select"
    assert profile.named("something else") == "something else"
