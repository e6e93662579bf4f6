"""The fault matrix: each row injects its fault into a running round, and ends when the fault has ended."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tests.chaos.arena import Arena
from tests.chaos.recorder import Recorder

Fault = Callable[[Arena, random.Random, Recorder], None]
T = TypeVar("T")
STRIDE = 7  # between the cases of rounds that follow each other, which would be much alike


class Row(NamedTuple):
    """One kind of fault."""

    name: str
    fault: Fault
    everywhere: bool  # may it be combined with others?
    recorder: type[Recorder]
    together: int  # most rounds in one recording
    wire: bool  # is it for the client of the batch path only?


ENTERED: dict[str, Row] = {}


def row(
    name: str, everywhere: bool = True, recorder: type[Recorder] = Recorder, together: int = 5, wire: bool = False
) -> Callable[[Fault], Fault]:
    """Enter a fault into the matrix. Of rounds that leave nothing of what came before, only the last is judged."""

    def enter(fault: Fault) -> Fault:
        key = fault.__name__.replace("_", "-")
        ENTERED[key] = Row(name, fault, everywhere, recorder, together, wire)
        return fault

    return enter


def in_turn(cases: Sequence[T], turn: int) -> T:
    """The case of a row that is due. As many turns, one after another, as there are cases take each of them once.

    It depends on nothing else, so a seed repeats its recording.
    """
    assert math.gcd(len(cases), STRIDE) == 1, len(cases)
    return cases[turn * STRIDE % len(cases)]
