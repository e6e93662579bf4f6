"""A cluster that is far away: every byte to and from it arrives later, and none waits for another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from mirror.local_kafka import LocalCluster
from tests.harness.proxy import listen_behind


class FarAway:
    """A forwarder before a cluster that is not started yet; a context manager. `delay` is in seconds, each way."""

    def __init__(self, cluster: LocalCluster, delay: float) -> None:
        self.delay = delay
        self._ports = listen_behind(cluster)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="far away")
        self._running = set[asyncio.Task[None]]()

    def __enter__(self) -> FarAway:
        self._thread.start()
        for port, inner in self._ports.items():
            serve = asyncio.start_server(lambda r, w, inner=inner: self._serve(r, w, inner), "127.0.0.1", port)  # type: ignore[misc]
            asyncio.run_coroutine_threadsafe(serve, self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, inner: int) -> None:
        broker_in, broker_out = await asyncio.open_connection("127.0.0.1", inner)
        self._go_on(self._pass(client_in, broker_out))
        self._go_on(self._pass(broker_in, client_out))

    def _go_on(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._running.add(task)  # the loop itself keeps no hold of it
        task.add_done_callback(self._running.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        on_the_way = asyncio.Queue[tuple[float, bytes]]()
        self._go_on(self._arrive(on_the_way, writer))
        data = b"any"
        while data:
            try:
                data = await reader.read(1 << 18)
            except OSError:
                data = b""
            on_the_way.put_nowait((self._loop.time() + self.delay, data))

    async def _arrive(self, on_the_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await on_the_way.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
