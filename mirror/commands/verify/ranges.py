"""What `mirror verify` compares of each partition: the offset ranges of both sides that belong together. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirror.commands.verify.digests import Stretch
from mirror.model import Partition


@dataclass(frozen=True, slots=True)
class Side:
    """The offset range of one partition on the cluster with this alias: from `start` up to, but without, `end`."""

    cluster: str
    topic: str
    partition: int
    start: int
    end: int

    def split(self, most: int) -> Iterator[Stretch]:
        """The range as stretches of at most `most` offsets."""
        for start in range(self.start, self.end, most):
            end = min(start + most, self.end)
            yield Stretch(self.cluster, self.topic, self.partition, start, end, self.end, start == self.start)


@dataclass(frozen=True, slots=True)
class PartitionRanges:
    """The offset ranges of one partition that are compared.

    Every source record before `position` has to be on the target. Later ones, up to `source.end`, may be there: all
    records before `target.end` came from them. If `ends_meet`, both ranges end at the same record.
    """

    source: Side
    target: Side
    position: int
    whole: bool  # True if the flow copies all that the source ever had; False if it started later
    syncs: tuple[tuple[int, int], ...] = ()  # upstream and downstream offsets of the same records, both ascending
    ends_meet: bool = False
    reason: str = ""  # why the ranges are not known, so that the partition can't be compared; "" if they are

    @property
    def place(self) -> Partition:
        """The source's partition."""
        return Partition(self.source.topic, self.source.partition)

    @property
    def source_may_lack(self) -> bool:
        """True if the target's log may begin with records that the source no longer has."""
        return self.source.start > 0

    @property
    def target_may_lack(self) -> bool:
        """True if the source's log may begin with records that the target no longer has, or never had to have."""
        return self.target.start > 0 or not self.whole
