"""What a system takes while it runs."""

from __future__ import annotations

import contextlib
import time

import psutil

from tests.bench.systems import System


class Usage:
    """CPU seconds and memory of a system's processes, sampled while it runs."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._cpu: dict[int, float] = {}
        self.peak = 0  # bytes, proportional set size of all processes
        self._looked = 0.0

    def look(self, every: float = 1.0) -> None:
        """Take a sample, at most one `every` seconds."""
        if time.monotonic() - self._looked < every:
            return
        self._looked = time.monotonic()
        memory = 0
        for process in self._system.processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._cpu[process.pid] = times.user + times.system
                memory += process.memory_full_info().pss
        self.peak = max(self.peak, memory)

    @property
    def cpu(self) -> float:
        """Seconds so far, of all processes that were seen."""
        return sum(self._cpu.values())
