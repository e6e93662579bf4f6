"""A request on its way, and who waits for its answer."""

from __future__ import annotations

import asyncio
import struct
from typing import Generic, TypeVar

from mirror.errors import WireError
from mirror.wire.requests import Request
from mirror.wire.writer import Writer

T = TypeVar("T")

_HEADER = struct.Struct(">ihhih")
_SIZE = 4  # bytes


class Sent(Generic[T]):
    """A request that was written, and gets its header when it is sent."""

    __slots__ = ("correlation", "end", "flexible", "future", "parts", "request", "size", "version")

    def __init__(self, request: Request[T], version: int, future: asyncio.Future[T]) -> None:
        self.request = request
        self.version = version
        self.flexible = version >= request.api.flexible
        self.future = future
        self.correlation = 0
        self.size = 0  # bytes, once it has its header
        self.end = 0  # how many bytes the connection has sent once this request is sent
        writer = Writer(version, self.flexible)
        request.write(writer)
        self.parts = writer.parts

    def header(self, correlation: int, client: bytes) -> bytes:
        """The size and the header of the request."""
        self.correlation = correlation
        end = b"\0" if self.flexible else b""
        self.size = _HEADER.size + len(client) + len(end) + sum(map(len, self.parts))
        head = _HEADER.pack(self.size - _SIZE, self.request.api.key, self.version, correlation, len(client))
        return head + client + end

    def fail(self, error: WireError) -> None:
        """Tell whoever waits. It is no mistake if nobody does any more."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()
