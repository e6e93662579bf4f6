"""Answers that are no answers, in place of a broker's: for `Proxy.spoil`."""

from __future__ import annotations

import random
import struct

from tests.harness.proxy import Spoil

SHARE = 0.1  # of all answers
LENGTHS = (-(2**31), -1, 0, 3, 2**30, 2**31 - 1)  # bytes; all are impossible


def _framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def cut_off(rng: random.Random) -> Spoil:
    """Some answers end somewhere, and the connection with them."""

    def spoil(_: int, answer: bytes) -> tuple[bytes, bool] | None:
        whole = _framed(answer)
        return (whole[: rng.randrange(len(whole))], True) if rng.random() < SHARE else None

    return spoil


def garbage(rng: random.Random) -> Spoil:
    """In place of some answers there come random bytes, an impossible length, or an answer to something else."""

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

    def spoil(_: int, answer: bytes) -> tuple[bytes, bool] | None:
        return (rng.choice(kinds)(answer), False) if rng.random() < SHARE else None

    return spoil


def silence(api_key: int) -> Spoil:
    """Answers to one kind of request never come. The connection stays open."""

    def spoil(key: int, _: bytes) -> tuple[bytes, bool] | None:
        return (b"", False) if key == api_key else None

    return spoil
