"""What the pages say of the fault matrix is what docs/reliability.json has."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KINDS = ("whole batches", "with a transform", "active/active")
RECORD_BY_RECORD = "record by record"


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "docs" / "reliability.json").read_text())
    return found


def kind(row: dict[str, Any]) -> str:
    return next((kind for kind in KINDS if row["name"].endswith(f"({kind})")), RECORD_BY_RECORD)


def sums(of: str) -> Counter[str]:
    """The sum of each number over all rows, by kind."""
    found = Counter[str]()
    for row in rows():
        found[kind(row)] += row[of]
    return found


def has(page: str, *sentences: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    missing = [sentence for sentence in sentences if sentence not in text]
    assert not missing, f"docs/reliability.json has other numbers than {page}: write {missing}"


def test_the_readme_has_the_sums_of_all_rounds() -> None:
    rounds = sums("rounds")
    has(
        "README.md",
        f"judged {rounds.total():,} rounds of injected faults: {rounds['whole batches']:,} with whole batches",
        f"{rounds[RECORD_BY_RECORD]:,} record by record, {rounds['with a transform']:,} with a transform and "
        f"{rounds['active/active']:,} with active/active",
    )


def test_the_page_has_the_sums_of_the_rounds_with_whole_batches() -> None:
    rounds, records, hand_overs = (sums(of)["whole batches"] for of in ("rounds", "records", "hand_overs"))
    has(
        "docs/reliability.md",
        f"{rounds:,} rounds of the",
        f"{records / 1e6:.2f} million records, {hand_overs:,} hand-overs",
    )


def test_no_round_has_a_violation_as_the_pages_say() -> None:
    assert len(rows()) > 100
    assert [row["name"] for row in rows() if row["violations"]] == []
