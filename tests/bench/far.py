"""A cluster that is far away: every byte to and from it arrives later, and none waits for another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mirror.demo.brokers import LocalCluster
from tests.harness.proxy import Forwarder


class FarAway(Forwarder):
    """`delay` is in seconds, each way."""

    def __init__(self, cluster: LocalCluster, delay: float) -> None:
        super().__init__(cluster)
        self.delay = delay
        self._running = set[asyncio.Task[None]]()

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
