"""By which of the two paths a partition is copied: what its reports say of that."""

from __future__ import annotations

from dataclasses import dataclass

RECORDS, BATCHES = "records", "batches"
DATA_PATHS = (RECORDS, BATCHES)
OTHER_REASON = "other"  # of a newer version
# Why a partition is copied by records, though the flow prefers whole batches: docs/operations.md, "Data path".
PATH_REASONS = (
    "without_transactions",
    "active_active",
    "transform",
    "compression",
    "client",
    "unsupported",
    "source_too_old",
    "log_append_time",
    "compacted",
    "old_format",
    "unknown_codec",
    "too_large",
    "small_batches",
    "too_many_records",
    "position_within_batch",
    "target_refuses",
    "interleaved",
    "too_slow",
    "doubted",
    "remote_topic",
    "unknown_topic",
    "recreated",
    "out_of_range",
    "diverged",
    "unreadable",
    "refused",
    "defect",
)


@dataclass(frozen=True, slots=True)
class DataPath:
    """By which of the two paths a partition is copied, and since when (seconds since the Unix epoch).

    `reason` is one word: why it is the record path, though the flow prefers the other one.
    """

    name: str
    since: float
    reason: str
