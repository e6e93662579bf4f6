"""What a worker's memory may grow by, as docs/design.md states it."""

from __future__ import annotations

from pathlib import Path

MIB = 2**20


def peak(pid: int) -> int:
    """The most memory that a process has had so far, bytes."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def bound(record: int, batch: int) -> int:
    """The bound for a task with one busy partition, one broker of the source, the largest record and `batch_max_bytes`.

    Allocators may keep half as much.
    """
    queue = 100 * record + 8 * MIB  # in librdkafka, and once more where the buffer is overshot
    return int(1.5 * (2 * batch + queue + queue + 2 * batch))
