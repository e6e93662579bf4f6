"""Tells whether a record batch can be forwarded as it is."""

from __future__ import annotations

from mirror.batches.codecs import ZSTD
from mirror.batches.headers import CODEC, LOG_APPEND_TIME, RecordBatch

# What a batch may say that it has, and the batches of a transaction together. Nobody unpacks them to look, and marks
# are made by that number.
RECORDS_MAX = 2**18


def misfit(batch: RecordBatch, position: int, most: int) -> str | None:
    """Why a target would not take the batch, or would change it; None if it fits.

    `position` is the offset at which we go on, and `most` the largest batch (bytes) that the target takes. LogValidator
    of Kafka's brokers refuses batches from which compaction has removed records, and those with the broker's own time.
    """
    reasons = (
        ("old_format", batch.is_old),
        ("position_within_batch", batch.first < position),
        ("compacted", batch.records != batch.last - batch.first + 1),
        ("log_append_time", batch.attributes & LOG_APPEND_TIME),
        ("unknown_codec", batch.attributes & CODEC > ZSTD),
        ("too_many_records", batch.records > RECORDS_MAX),
        ("too_large", len(batch.data) > most),
    )
    return next((name for name, holds in reasons if holds), None)
