"""Records that are made to hurt: of headers, which the client library does not count."""

from __future__ import annotations

import random
import time
import uuid

import psutil

from tests.chaos.arena import Arena
from tests.chaos.matrix import row
from tests.chaos.own_recorders import OwnServiceRecorder
from tests.chaos.processes import worker
from tests.chaos.recorder import Recorder
from tests.checker.history import Memory
from tests.harness import topics
from tests.harness.load import Made
from tests.harness.memory import MIB, bound, peak
from tests.harness.waiting import until

RECORDS, HEADER = 600, 500_000
COPIED_WITHIN = 300.0  # seconds, on a busy machine
BATCH = MIB


class HeadersRecorder(OwnServiceRecorder):
    """The recorder of a service whose bound is low, and all of whose work one worker does."""

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena, arena.pair, batch_max_bytes=BATCH, tasks_max=1)
        self._begun: int | None = None

    @classmethod
    def at(cls, arena: Arena) -> HeadersRecorder:
        """A recorder in this place."""
        return cls(arena)

    def begun(self, workers: list[int]) -> int:
        """The memory that the workers had before any of these records came, bytes."""
        if self._begun is None:
            self._begun = min(psutil.Process(pid).memory_info().rss for pid in workers)
        return self._begun


@row("28 records made of headers; perhaps a worker is killed", everywhere=False, recorder=HeadersRecorder)
def huge_headers(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    """Write headers of a size that broke a worker which counted only keys and values."""
    assert isinstance(recorder, HeadersRecorder)
    # The target's brokers have little room; a worker sees nothing of it.
    topics.configure(arena.pair.target, recorder.remote, compression_type="zstd")
    name = uuid.uuid4().hex.encode()
    with arena.service.workers_stopped():
        begun = recorder.begun(arena.service.worker_pids())
        for first in range(0, RECORDS, 100):
            made = [Made(b"%d" % n, name, [("large", bytes(HEADER))]) for n in range(first, first + 100)]
            arena.pair.produce(recorder.topic, *made)
        ends = recorder.source_ends()
    kill_at = time.monotonic() + rng.uniform(0, 3) if rng.random() < 0.5 else float("inf")
    most = 0

    def copied() -> bool:
        nonlocal kill_at, most
        most = max([most, *_peaks(arena)])
        if time.monotonic() > kill_at:
            kill_at = float("inf")
            worker(arena, rng, recorder)
        positions = recorder.positions() or {}
        return all(positions.get(number, -1) >= end for number, end in ends.items())

    until("all copied", copied, COPIED_WITHIN)
    recorder.heals()  # only now: a backlog is no stall
    recorder.memory.append(Memory(most - begun, bound(HEADER, BATCH)))
    print(f"   grown by {(most - begun) / MIB:.0f} MiB of {bound(HEADER, BATCH) / MIB:.0f}", flush=True)


def _peaks(arena: Arena) -> list[int]:
    found = []
    for pid in arena.service.worker_pids():
        try:
            found.append(peak(pid))
        except (OSError, ValueError):  # it ends, and a zombie has no memory
            continue
    return found
