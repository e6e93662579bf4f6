"""What a transaction has written, whichever path has copied its records. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.model import Position


@dataclass(frozen=True, slots=True)
class AppendedOffsets:
    """Where the records of a transaction are in the remote partition."""

    expected: int | None  # the offset after everything that the partition had before; None if that is not known
    first: int
    last: int
    records: int  # how many there are


def appended_offsets(expected: int | None, first: int | None, last: int | None, records: int) -> AppendedOffsets | None:
    """None if the client knows no offset of a record, as of one that the broker says it had already."""
    return None if first is None or last is None else AppendedOffsets(expected, first, last, records)


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction has written: how much, and the position that it has committed."""

    size: int  # bytes of keys, values and headers, or of whole batches as they are stored
    position: Position
    appended: AppendedOffsets | None = None  # where its records are; None without records, or if that is not known
