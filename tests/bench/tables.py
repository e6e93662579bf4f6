"""What all tables of results are made of."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Result = dict[str, Any]
LOAD = ("size", "partitions", "compression", "headers", "batch_bytes")


def load_label(load: Mapping[str, Any]) -> str:
    """What a load is, in words."""
    return label(*(load[key] for key in LOAD))


def grouped(results: Iterable[Result], measure: str, *keys: str) -> dict[tuple[Any, ...], dict[str, list[Result]]]:
    groups: dict[tuple[Any, ...], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["measure"] == measure:
            groups[tuple(result.get(key, 0) for key in keys)][result["system"]].append(result)
    return groups


def cell(results: Sequence[Result], key: str, digits: int = 0, unit: float = 1) -> str:
    values = [result[key] / unit for result in results if key in result]
    if not values:
        return ""
    text = f"{statistics.median(values):,.{digits}f}"
    return f"{text} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if len(values) > 1 else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def label(size: int, partitions: int, compression: str, headers: bool, batch_bytes: int) -> str:
    more = [compression] * (compression != "none") + ["headers"] * headers
    if batch_bytes:
        more.append(f"batches of {batch_bytes // 2**10} KiB" if batch_bytes > size else "one record in each batch")
    return ", ".join([f"{size:,} B", f"{partitions} partition{'s' * (partitions > 1)}", *more])
