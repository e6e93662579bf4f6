"""The event loop of a task's batch copiers, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from mirror.errors import Unsupported
from mirror.kafka.credentials import FileChanges, properties_of
from mirror.kafka.throttling import Throttles
from mirror.settings import Flow
from mirror.source.batch_fetcher import BatchFetcher
from mirror.task.batch_services import BatchServices
from mirror.task.ownership import Ownership
from mirror.task.supervised_batch_copier import SupervisedBatchCopier
from mirror.task.task_services import TaskServices
from mirror.task.thread_stack import stack_of
from mirror.text import BUG
from mirror.wire.access import Access, access
from mirror.wire.cluster import Cluster

log = logging.getLogger(__name__)

T = TypeVar("T")

BEAT = 1.0  # seconds
STARTED_WITHIN = 30.0  # seconds; nothing is connected to meanwhile


def accesses(flow: Flow, throttles: Throttles) -> tuple[Access, Access]:
    """How to connect to source and target, with the properties of librdkafka's clients. Raises Unsupported.

    What their quotas do is reported as on the record path.
    """
    source = access({**properties_of(flow.source), **flow.source.consumer})
    target = access({**properties_of(flow.target), **flow.target.producer})
    return (
        replace(source, on_throttled=throttles.source.note, cluster=flow.source.alias),
        replace(target, on_throttled=throttles.target.note, cluster=flow.target.alias),
    )


class BatchLoop:
    """Runs from when it is made until `close`. Any thread may call its methods, but for those of its own thread."""

    def __init__(self, services: TaskServices) -> None:
        """Raises Unsupported."""
        self._task = services
        self._changes = [FileChanges(services.flow.source), FileChanges(services.flow.target)]
        self._access = accesses(services.flow, services.throttles)
        self._clock = services.clock
        self._beat = self._clock.monotonic()
        self._copiers: set[asyncio.Task[None]] = set()
        self._closed = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()
        if not self._ready.wait(STARTED_WITHIN):
            raise RuntimeError("the event loop of the batch path does not start")

    def start(self, copier: SupervisedBatchCopier) -> None:
        """Run a copier in the loop."""
        self.call(lambda: self._begin(copier))

    def call(self, callback: Callable[[], object]) -> None:
        """Call this in the loop; nothing happens once that has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop. The future gets its result, or is cancelled if the loop ends or has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            never: Future[T] = Future()
            never.cancel()
            return never

    @property
    def has_died(self) -> bool:
        """True if it has ended without `close`, as only a defect can do: nothing on the batch path moves any more."""
        return not self._closed and not self._thread.is_alive()

    @property
    def silent_for(self) -> float:
        """Seconds for which the loop has run nothing but one and the same callback; 0 if it is well, or has ended."""
        return max(0.0, self._clock.monotonic() - self._beat - 2 * BEAT) if self._thread.is_alive() else 0.0

    @property
    def stack(self) -> str:
        """The stack of its thread, the innermost call first."""
        return stack_of(self._thread.ident or 0)

    def close(self, timeout: float) -> None:
        """End all copiers where they are, without waiting for transactions, and close the connections."""
        self._closed = True
        self.call(self._main.cancel)
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            asyncio.run(self._keep())
        except asyncio.CancelledError:
            pass
        except BaseException:  # also SystemExit, which a library may raise: nobody else would tell it
            log.exception(BUG, extra={"flow": self._task.flow.name})

    async def _keep(self) -> None:
        task, flow = self._task, self._task.flow
        source, target = map(Cluster, self._access)
        self.fetcher = BatchFetcher(source, rack=flow.source.rack)
        tokens = task.positions.tokens
        ownership = Ownership(task.plan)
        self.services = BatchServices(
            task.plan,
            self.fetcher,
            target,
            tokens,
            task.limits,
            task.clock,
            ownership,
            looks=task.looks,
            unconfirmed=task.unconfirmed,
        )
        self._loop, main = asyncio.get_running_loop(), asyncio.current_task()
        assert main is not None
        self._main = main
        self._ready.set()
        try:
            while True:
                self._beat = self._clock.monotonic()
                self._renew(source, target)
                await asyncio.sleep(BEAT)
        finally:
            for each in self._copiers:
                each.cancel()
            await asyncio.gather(*self._copiers, return_exceptions=True)
            await self.fetcher.stop()
            source.close()
            target.close()

    def _renew(self, source: Cluster, target: Cluster) -> None:
        """Log in with the passwords, certificates and keys that files hold now, if any of these files has changed."""
        changed = [each for each in self._changes if each.any()]
        for each in changed:
            each.note()
        if not changed:
            return
        try:
            renewed = accesses(self._task.flow, self._task.throttles)
        except Unsupported as error:  # perhaps a certificate whose key has not come yet
            extra = {"flow": self._task.flow.name, "reason": str(error)}
            log.warning("a client can't be made anew, the old one goes on", extra=extra)
            return
        for cluster, how in zip((source, target), renewed, strict=True):
            cluster.renew(how)

    def _begin(self, copier: SupervisedBatchCopier) -> None:
        running = self._loop.create_task(copier.run())
        self._copiers.add(running)
        running.add_done_callback(self._copiers.discard)
