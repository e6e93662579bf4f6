"""Reports: what a task says of each partition on the status topic, once a second."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from mirror.plan import Partition

# Upper bounds of the replication latency histogram, seconds.
LATENCY_BUCKETS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600,
)  # fmt: skip
_BOUNDS_MS = [bound * 1000 for bound in LATENCY_BUCKETS]

OUTCOMES = ("committed", "aborted", "unknown", "fenced")


@dataclass(slots=True)
class Counters:
    """What one incarnation of a partition has done since it began; only ever grows."""

    records: int = 0
    bytes: int = 0  # keys, values and headers
    transactions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    latency_buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    latency_sum: float = 0.0  # seconds

    def copied(self, timestamps: Sequence[int], size: int, now: int) -> None:
        """Count a committed batch of `size` bytes, with its replication latency: `now` minus record timestamp, ms.

        Clocks of producers may be ahead of ours; such a record's latency counts as 0. A record without a timestamp
        has none.
        """
        self.records += len(timestamps)
        self.bytes += size
        ages = sorted(max(0, now - timestamp) for timestamp in timestamps if timestamp > 0)
        self.latency_sum += sum(ages) / 1000
        below = 0
        for index, bound in enumerate(_BOUNDS_MS):
            upto = bisect_right(ages, bound, lo=below)
            self.latency_buckets[index] += upto - below
            below = upto
            if below == len(ages):
                return
        self.latency_buckets[-1] += len(ages) - below


@dataclass(frozen=True, slots=True)
class Report:
    """A partition's state and cumulative counters, as its owner sees them."""

    leader: str
    incarnation: str  # counters of another incarnation begin at zero again
    generation: int
    partition: Partition
    remote: str
    state: str
    reason: str
    position: int  # next upstream offset; -1 before it is known
    lag: int  # records up to the source's last stable offset; -1 before it is known
    last_commit: float  # seconds since the Unix epoch; 0: none yet
    counters: Counters

    def key(self) -> bytes:
        """The record key: the newest report of a partition replaces the older ones."""
        return f"{self.partition.topic}/{self.partition.partition}".encode()

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def decode(value: bytes) -> Report | None:
        """The report that `encode` wrote; None for one of another version of mirror."""
        try:
            raw = json.loads(value)
            raw["partition"] = Partition(*raw["partition"])
            raw["counters"] = Counters(**raw["counters"])
            return Report(**raw)
        except (ValueError, TypeError, KeyError):
            return None
