"""Somebody on the network between Spark's driver and its executors, who hears all that the two send each other."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from types import TracebackType

HOST = "127.0.0.2"  # the driver listens at the same ports of 127.0.0.1


class Eavesdropper:
    """A context manager that passes on what comes to ports of HOST, to the same ports of 127.0.0.1, and keeps it."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.heard = b""
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name=type(self).__name__)

    async def _listen(self) -> None:
        for port in self._ports:
            await asyncio.start_server(lambda r, w, port=port: self._join(r, w, port), HOST, port)  # type: ignore[misc]

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        driver_reader, driver_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(self._pass(reader, driver_writer), self._pass(driver_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # an executor that is killed resets its connections
            while data := await reader.read(65_536):
                self.heard += data
                writer.write(data)
                await writer.drain()
        writer.close()

    def __enter__(self) -> Eavesdropper:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        """Cancel what still listens or passes on, so that nothing is left in the middle when the loop ends."""
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
