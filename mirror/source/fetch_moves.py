"""What others ask of the fetcher: to begin with a partition, to go back in it, and to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mirror.model import Partition, Position, Topic
from mirror.source.buffer import RecordBuffer
from mirror.source.fetch_events import FetchEvent


class Fetched(Protocol):
    """What the fetcher knows of a partition. The class that copies it is in task/, which this room must not import."""

    partition: Partition
    topic: Topic
    buffer: RecordBuffer

    @property
    def begins_at(self) -> tuple[int, int]:
        """The offset, and the leader epoch before it, at which to begin to consume."""

    @property
    def drains_slowly(self) -> bool:
        """True if the buffer is not expected to drain soon."""

    def post(self, event: FetchEvent) -> None:
        """Put an event into the partition's inbox, for its next step."""


F = TypeVar("F", bound=Fetched)


@dataclass(frozen=True, slots=True)
class StartFetching(Generic[F]):
    """Begin to consume a partition."""

    fetched: F


@dataclass(frozen=True, slots=True)
class Seek(Generic[F]):
    """Consume a partition again from `position`. `seek_id` is from `RecordBuffer.resume_at`."""

    fetched: F
    position: Position
    seek_id: int


@dataclass(frozen=True, slots=True)
class StopFetching(Generic[F]):
    """Stop consuming a partition that has been let go."""

    fetched: F


Move = StartFetching[F] | Seek[F] | StopFetching[F]
