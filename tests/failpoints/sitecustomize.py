"""Kills, stops, hangs or fails a Spark worker at a chosen step of its work, without a line in mirror for it.

Python runs this at its start where this folder is on PYTHONPATH, in a service under test and in the Python processes
that Spark has for it. MIRROR_FAILPOINTS names a folder. A file in it that is named after a step arms it; in it stand a
count, a signal, and what no other such file has, as in `3 SIGKILL 5f0c`. In place of the signal there may be HANG: the
thread then never returns, as from a call that forgets its time-out; or RAISE: it fails with an exception. The worker
that has reached the step three times since it was armed renames the file to `<step>.<pid>` and does that to itself.
Only one can rename it, so each file acts once, whatever processes there are. A step's name with `-of-batches` after it
is the same step, but on the batch path only.
MIRROR_RENEW_INTERVAL (seconds) replaces what the target tells, MIRROR_CLOCK_AHEAD (seconds) sets the clock wrong as
mirror sees it, MIRROR_STAY (seconds) is how long a partition stays on the record path at least, and half of how long it
stays there at most.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(os.environ.get("MIRROR_FAILPOINTS", "/nonexistent"))

_seen: Counter[tuple[str, str]] = Counter()  # by step, and by what stands in the file that arms it


def reached(step: str) -> None:
    """Send this process the signal if it is time to."""
    armed = FOLDER / step
    try:
        arming = armed.read_text()
        nth, name, _ = arming.split()
        _seen[step, arming] += 1
        if _seen[step, arming] < int(nth):
            return
        armed.rename(FOLDER / f"{step}.{os.getpid()}")
    except OSError:
        return
    if name == "HANG":
        threading.Event().wait()
    if name == "RAISE":
        raise RuntimeError(step)
    # To this thread, which then does nothing more. If the signal is the process's, another thread may take it, and this
    # one goes on for a moment: a transaction that was to stop before its end has been seen to end.
    signal.pthread_kill(threading.get_ident(), signal.Signals[name])


def _reached_by_batches(step: str) -> None:
    reached(step)
    reached(f"{step}-of-batches")


def _around(function: Callable[..., Any], before: str | None, after: str | None) -> Callable[..., Any]:
    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            reached(before)
        answer = function(*args, **kwargs)
        if after:
            reached(after)
        return answer

    return wrapped


def _around_async(function: Callable[..., Any], before: str | None, after: str | None) -> Callable[..., Any]:
    @wraps(function)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            _reached_by_batches(before)
        answer = await function(*args, **kwargs)
        if after:
            _reached_by_batches(after)
        return answer

    return wrapped


def _patch_producer(module: ModuleType) -> None:
    producer = module.TransactionalProducer
    producer.fence = _around(producer.fence, "before-fence", "after-fence")
    producer.send_position = _around(producer.send_position, None, "after-offsets")
    producer.commit = _around(producer.commit, None, "after-commit")


def _patch_session(module: ModuleType) -> None:
    produce = module.TransactionSession._produce

    def delivered(session: Any, *args: Any) -> Any:
        """Have the records on the target before the step counts as reached."""
        answer = produce(session, *args)
        if (FOLDER / "after-produce").exists():
            session._producer.flush()
        return answer

    module.TransactionSession._produce = _around(delivered, "before-produce", "after-produce")


def _patch_batch_take_over(module: Any) -> None:
    module.take_over = _around_async(module.take_over, "before-fence", None)
    module._settled = _around_async(module._settled, "after-fence", None)  # it follows the fencing


def _patch_batch_transaction(module: ModuleType) -> None:
    transaction: Any = module.BatchTransaction
    transaction._begin = _around_async(transaction._begin, "before-produce", "after-produce")
    transaction.commit_position = _around_async(transaction.commit_position, None, "after-offsets")


def _patch_batch_session(module: ModuleType) -> None:
    session: Any = module.BatchSession
    session._run = _around_async(session._run, None, "after-commit")


def _patch_path_memory(module: ModuleType) -> None:
    stay = os.environ.get("MIRROR_STAY")
    if stay is not None:
        module.FIRST_STAY, module.LONGEST_STAY = float(stay), 2 * float(stay)  # type: ignore[attr-defined]


def _patch_copier(module: ModuleType) -> None:
    copier: Any = module.RecordCopier
    copier._recover = _around(copier._recover, "before-recovery", None)


def _patch_renewal(module: ModuleType) -> None:
    seconds = os.environ.get("MIRROR_RENEW_INTERVAL")
    if seconds is not None:
        module.renew_interval = lambda *_: (float(seconds), "")  # type: ignore[attr-defined]


def _patch_batch_copier(module: ModuleType) -> None:
    copier: Any = module.SupervisedBatchCopier
    copier._recover = _around_async(copier._recover, "before-recovery", None)


def _patch_positions(module: ModuleType) -> None:
    positions = module.PositionReader
    positions.commit = _around(positions.commit, "before-position", None)


def _patch_fetcher(module: ModuleType) -> None:
    fetcher: Any = module.Fetcher
    fetcher.poll = _around(fetcher.poll, "before-poll", None)


def _patch_source(module: ModuleType) -> None:
    reader: Any = module.SliceReader
    reader.partitions = _around(reader.partitions, "before-epoch", None)


PATCHES = {
    "mirror.target.position_reader": _patch_positions,
    "mirror.target.transactional_producer": _patch_producer,
    "mirror.target.record_transactions": _patch_session,
    "mirror.target.batch_take_over": _patch_batch_take_over,
    "mirror.target.batch_transaction": _patch_batch_transaction,
    "mirror.target.batch_session": _patch_batch_session,
    "mirror.task.path_memory": _patch_path_memory,
    "mirror.target.position_renewal": _patch_renewal,
    "mirror.task.copier": _patch_copier,
    "mirror.task.supervised_batch_copier": _patch_batch_copier,
    "mirror.spark.slice_tasks": _patch_source,
    "mirror.source.fetcher": _patch_fetcher,
}


class _Finder(MetaPathFinder):
    """Patches the modules when they are imported: a worker may have none of them at its start."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in PATCHES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            _patch_after(spec.loader, PATCHES[name])
        return spec


def _patch_after(loader: Loader, patch: Callable[[ModuleType], None]) -> None:
    execute = loader.exec_module

    def execute_and_patch(module: ModuleType) -> None:
        execute(module)
        patch(module)

    loader.exec_module = execute_and_patch  # type: ignore[method-assign]


def _set_clock(ahead: float) -> None:
    right = time.time
    time.time = lambda: right() + ahead


if "MIRROR_CLOCK_AHEAD" in os.environ:
    _set_clock(float(os.environ["MIRROR_CLOCK_AHEAD"]))
if "MIRROR_FAILPOINTS" in os.environ:
    sys.meta_path.insert(0, _Finder())
