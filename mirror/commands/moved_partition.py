"""What `mirror adopt` and `mirror hand-back` say of each partition whose position they move."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mirror.model import Partition

FOREIGN = "its group has a position that mirror has not committed"


@dataclass(frozen=True, slots=True)
class MovedPartition:
    """A source partition, and its remote partition if that is known. Each command adds what has become of it."""

    partition: Partition
    remote: Partition | None

    def as_dict(self) -> dict[str, Any]:
        """The result as it is printed with --json."""
        rest = asdict(self)
        del rest["partition"], rest["remote"]
        names = {"topic": self.partition.topic, "partition": self.partition.partition}
        return {**names, "remote": self.remote.topic if self.remote else None, **rest}
