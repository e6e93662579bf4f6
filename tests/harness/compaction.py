"""Tells when a broker has compacted a topic whose keys all differ."""

from __future__ import annotations

from collections.abc import Callable

from tests.harness import oracle
from tests.harness.load import Made, produce


def write_again(bootstrap: str, topic: str, part: bytes = b"") -> Callable[[], bool]:
    """Write the first record once more whose key contains `part`.

    Returns a function that is True once compaction has removed the older one of the two.
    """
    first = next(record for record in oracle.read(bootstrap, topic)[0] if part in (record.key or b""))
    produce(bootstrap, topic, [Made(first.key, first.value)])
    return lambda: [record.key for record in oracle.read(bootstrap, topic)[0]].count(first.key) == 1
