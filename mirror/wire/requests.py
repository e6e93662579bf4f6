"""What a request is: a kind, in a range of versions, how it is written and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from mirror.errors import Unsupported
from mirror.wire.cursor import Cursor
from mirror.wire.writer import Writer

T = TypeVar("T")

Versions = Mapping[int, tuple[int, int]]  # the first and the last version that a broker has of each kind, by its key
ANSWER_MAX = 2**26  # bytes of an answer without records: lists for ten thousand partitions have a few million
GREETING_MAX = 2**15  # bytes of an answer before or in a login: from whom, is not known yet
BESIDE_MAX = 2**23  # bytes that an answer has beside records


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of request, in the versions that we know. From version `flexible` on it is encoded by KIP-482's rules."""

    name: str
    key: int
    first: int
    last: int
    flexible: int
    has_records: bool = False  # in its answer
    plain_header: bool = False  # before its answer, which brokers of any age have to be able to write
    greets: bool = False  # it is sent before or in a login

    def version(self, broker: Versions) -> int:
        """The newest version that the broker has, too. Raises Unsupported."""
        first, last = broker.get(self.key, (0, -1))
        if max(first, self.first) > min(last, self.last):
            has = f"has versions {first} to {last}" if last >= 0 else "does not have it"
            raise Unsupported(f"{self.name} needs version {self.first} to {self.last}: the broker {has}")
        return min(last, self.last)


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A request, and the reader of its answer.

    The broker may take `wait` seconds before it answers. `most` bytes of records are asked for, and `asked` partitions,
    or whatever else the answer lists.
    """

    api: Api
    write: Callable[[Writer], object]
    read: Callable[[Cursor], T]
    wait: float = 0.0
    most: int = 0
    asked: int = 1

    def answer_max(self, batch_max: int) -> int:
        """The most bytes that an answer may have, if a batch has at most `batch_max`.

        An answer with records has about as many bytes as were asked for, or its first batch alone (KIP-74).
        """
        if self.api.greets:
            return GREETING_MAX
        return max(self.most, batch_max) + BESIDE_MAX if self.api.has_records else ANSWER_MAX

    def decode(self, version: int, frame: memoryview) -> tuple[T, int]:
        """The answer after the correlation id, and for how many milliseconds the broker throttles us. Raises WireError.

        That is Malformed, if the frame holds anything else than one answer.
        """
        answer = Cursor(frame, version, version >= self.api.flexible, self.asked)
        if not self.api.plain_header:
            answer.tags()
        found = self.read(answer)
        answer.end()
        return found, answer.throttled
