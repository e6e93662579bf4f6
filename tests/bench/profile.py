"""Where a task that copies whole batches spends its time: sampled by py-spy while it catches up. Needs root."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

import mirror
from tests.bench import catch_up
from tests.bench.catch_up import Load
from tests.bench.job import Job
from tests.bench.systems import System
from tests.harness.waiting import until

Result = dict[str, object]
SAMPLES = 500  # a second
SECONDS = 4
LOADS = (Load(20_000_000), Load(8_000_000, batch_bytes=16_384), Load(8_000_000, batch_bytes=16_384, compression="lz4"))
MOST = 15  # functions in a result
WAITING = (
    "selectors.py:EpollSelector.select",
    "kafka/polling.py:polled",
    "control/control_reader.py:ControlReader._poll_once",
)
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^():]+)(?::\d+)?\)")
_PACKAGE = Path(mirror.__file__).parent


def measure(system: System, load: Load) -> Result:
    """The functions in which the busiest of its tasks works, and how often, as shares of all samples of work."""
    count = catch_up.Count(system.job.target.bootstrap, system.job.remote(load.topic), load.partitions)
    with system:
        until("an eighth of the records", lambda: count.now() > load.records / 8, catch_up.LATE)
        stacks = _sampled(_busiest(system), system.job)
        assert count.now() < load.records, "all was copied before the samples were taken"
    inner = Counter[str]()
    for stack, times in stacks.items():
        inner[named(stack.rsplit(";", 1)[-1])] += times
    for each in WAITING:
        del inner[each]
    whole = sum(inner.values())
    return {"samples": whole, "shares": {name: times / whole for name, times in inner.most_common(MOST)}}


def _busiest(system: System) -> int:
    """The process id of the task that has used most of the processor."""
    workers = [each for each in system.processes() if "pyspark.daemon" in " ".join(each.cmdline())]
    return int(max(workers, key=lambda each: sum(each.cpu_times()[:2]) if each.is_running() else 0.0).pid)


def _sampled(process: int, job: Job) -> Counter[str]:
    """How often each stack was found, outermost function first."""
    found = job.directory / f"profile-{job.alias}.txt"
    command = [f"{sysconfig.get_path('scripts')}/py-spy", "record", "--pid", str(process), "--format", "raw"]
    command += [
        "--rate",
        str(SAMPLES),
        "--duration",
        str(SECONDS),
        "--nonblocking",
        "--full-filenames",
        "--output",
        str(found),
    ]
    subprocess.run(command, check=True, capture_output=True)
    stacks = Counter[str]()
    for line in found.read_text().splitlines():
        stack, _, times = line.rpartition(" ")
        stacks[stack] += int(times)
    return stacks


def named(frame: str) -> str:
    """`wire/stream.py:write`, or the function's name alone if it is not ours."""
    parts = _FRAME.fullmatch(frame)
    if parts is None:
        return frame
    file = Path(parts["file"])
    place = str(file.relative_to(_PACKAGE)) if file.is_relative_to(_PACKAGE) else file.name
    return f"{place}:{parts['function']}"
