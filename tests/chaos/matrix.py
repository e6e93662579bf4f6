"""The fault matrix: each row injects its fault into a running round, and ends when the fault has ended."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.chaos.arena import Arena
from tests.chaos.recorder import Recorder

Fault = Callable[[Arena, random.Random, Recorder], None]


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
