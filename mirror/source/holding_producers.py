"""Says whose transaction holds a partition of the source back, without waiting for the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from mirror.model import Partition

AGAIN = 60.0  # seconds after which a source that has not said it is asked again


@dataclass(frozen=True, slots=True)
class _Known:
    stable: int
    whose: str
    at: float  # monotonic


class HoldingProducers:
    """The producers that hold partitions back. Each is asked for once, in a thread: one at a time."""

    def __init__(self, ask: Callable[[str, int], str]) -> None:
        """`ask` returns the producer of the transaction that is open on a partition, for people; "" if nobody says."""
        self._ask = ask
        self._known: dict[Partition, _Known] = {}
        self._asking: threading.Thread | None = None

    def of(self, partition: Partition, stable: int) -> str:
        """Whose transaction holds it at this last stable offset; "" while that is not known."""
        known = self._known.get(partition)
        if known is not None and known.stable == stable and (known.whose or time.monotonic() - known.at < AGAIN):
            return known.whose
        if self._asking is None or not self._asking.is_alive():
            # The process may end meanwhile: the source may not answer for long.
            self._asking = threading.Thread(target=self._look, args=(partition, stable), daemon=True)
            self._asking.start()
        return ""

    def _look(self, partition: Partition, stable: int) -> None:
        whose = self._ask(*partition)
        self._known[partition] = _Known(stable, whose, time.monotonic())
