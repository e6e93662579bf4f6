"""Answers that are no answers, in place of a broker's: for `Proxy.spoil`."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Collection

LENGTHS = (-(2**31), -1, 0, 3, 2**30, 2**31 - 1)  # bytes; all are impossible
THROTTLED_FIRST = frozenset({1, 26, 28})  # Fetch, EndTxn, TxnOffsetCommit: their answers begin with the throttle time
_THROTTLE = struct.Struct(">i x i")  # correlation, no tags, and the milliseconds

Spoiled = tuple[bytes, bool]  # what is sent in place of an answer, and whether the connection then ends
How = Callable[[bytes], Spoiled]


class Spoiler:
    """Spoils answers to one kind of request, once it is `active`, and knows which answers have come.

    All of them until one that has `marker` in it is spoiled, and of those after it this `share`. The answers that lead
    to it (`also`) are spoiled until then. Of all other answers `others` is the share that is spoiled.
    """

    def __init__(
        self,
        key: int,
        how: How,
        rng: random.Random,
        marker: bytes = b"",
        also: Collection[int] = (),
        share: float = 1.0,
        others: float = 0.0,
    ) -> None:
        self.active = False
        self.seen: set[int] = set()  # the kinds of requests that were answered
        self.given = 0  # how many answers were spoiled that are of the kind, and have the marker
        self._key, self._marker, self._also = key, marker, also
        self._how, self._rng = how, rng
        self._share, self._others = share, others

    def __call__(self, key: int, answer: bytes) -> Spoiled | None:
        """What is sent in place of an answer to this kind of request; None: it passes."""
        self.seen.add(key)
        if not self.active or not self._is_hit(key):
            return None
        self.given += key == self._key and self._marker in answer
        return self._how(answer)

    def _is_hit(self, key: int) -> bool:
        if not self.given and (key == self._key or key in self._also):
            return True
        return self._rng.random() < (self._share if key == self._key else self._others)


class ThrottleWatch:
    """Spoils nothing, and sees whether the broker throttles who asks. It can tell that of the versions that we use."""

    def __init__(self) -> None:
        self.throttled = False

    def __call__(self, key: int, answer: bytes) -> None:
        """Look at an answer."""
        if key in THROTTLED_FIRST and len(answer) >= _THROTTLE.size:
            self.throttled |= _THROTTLE.unpack_from(answer)[1] > 0


def _framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def cut_off(rng: random.Random) -> How:
    """The answer ends somewhere, and the connection with it."""

    def how(answer: bytes) -> Spoiled:
        whole = _framed(answer)
        return whole[: rng.randrange(len(whole))], True

    return how


def garbage(rng: random.Random) -> How:
    """In place of the answer there come random bytes, an impossible length, or an answer to something else."""

    def random_body(answer: bytes) -> bytes:
        return _framed(answer[:4] + rng.randbytes(len(answer) - 4))

    def nothing_but_garbage(answer: bytes) -> bytes:
        return _framed(rng.randbytes(len(answer)))

    def short(answer: bytes) -> bytes:
        return _framed(answer[: rng.randrange(len(answer))])

    def impossible(answer: bytes) -> bytes:
        return struct.pack(">i", rng.choice(LENGTHS)) + answer

    def of_another(answer: bytes) -> bytes:
        return _framed(struct.pack(">i", rng.getrandbits(31)) + answer[4:])

    kinds = (random_body, nothing_but_garbage, short, impossible, of_another)
    return lambda answer: (rng.choice(kinds)(answer), False)


def silence(_: bytes) -> Spoiled:
    """The answer never comes. The connection stays open."""
    return b"", False
