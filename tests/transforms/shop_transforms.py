"""Transforms as a user has them: in a module of their own, outside of the package.

It is importable where its folder is in PYTHONPATH: in unit tests, and in services under test.
"""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from dataclasses import replace

from mirror.transform import Record

BAD = b"bad"  # the value for which `thirds` fails
HANGS = b"hangs"  # the value for which `slow` does not return for an hour

_calls = itertools.count()


def thirds(record: Record) -> Record | None:
    """Drops one of three, by the offset, so that it needs no value. Others get a value and a header more."""
    if record.value == BAD:
        raise ValueError(record.value)
    if record.offset % 3 == 1:
        return None
    return replace(record, value=b"<%s>" % (record.value or b""), headers=(*record.headers, ("by", b"thirds")))


def tenfold(record: Record) -> Record | None:
    """Drops odd numbers, and fails for 4."""
    number = int(record.value or b"")
    if number == 4:
        raise ValueError(number)
    return None if number % 2 else replace(record, value=b"%d" % (10 * number))


def without_a_third(record: Record) -> Record | None:
    """Drops one of three, by the key and the value, as the chaos harness knows it, and fails for the key "fails"."""
    if record.key == b"fails":
        raise ValueError(record.key)
    return None if zlib.crc32((record.key or b"") + (record.value or b"")) % 3 == 0 else record


def nothing(record: Record) -> Record | None:
    """Drops every record."""
    return None


def same(record: Record) -> Record:
    """Changes nothing, and makes a new record of each."""
    return replace(record)


def slow(record: Record) -> Record:
    """Takes a tenth of a second for a record, or an hour."""
    time.sleep(3600 if record.value == HANGS else 0.1)
    return record


def busy(record: Record) -> Record:
    """Computes for some milliseconds, and so holds the lock of the interpreter nearly all the time."""
    sum(number * number for number in range(50_000))
    return record


def different(record: Record) -> Record:
    """Depends on how often it was called."""
    return replace(record, value=b"%d" % next(_calls))


not_callable = threading.main_thread()
