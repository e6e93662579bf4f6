"""One EndTxn request that a proxy holds back, and the requests of transactions that it has to know for that."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass

from tests.harness.forwarder import Streams

ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 25, 26, 28
FLEXIBLE = {ADD_OFFSETS_TO_TXN: 3, END_TXN: 3, TXN_OFFSET_COMMIT: 3}  # the first version with KIP-482's formats
TRANSACTIONS_V2 = {END_TXN: 5, TXN_OFFSET_COMMIT: 5}  # the first version without AddOffsetsToTxn (KIP-890)


@dataclass(frozen=True)
class TxnRequest:
    """The beginning of EndTxn, and of the request that puts a position into a transaction."""

    api_key: int
    flexible: bool
    adds_position: bool
    transactional_id: str
    producer_id: int
    epoch: int

    @staticmethod
    def parse(frame: bytes) -> TxnRequest | None:
        """The request, or None if it is another one.

        Header: INT16 key, INT16 version, INT32 correlation, NULLABLE_STRING client; flexible: tags (none).
        """
        api_key, version = struct.unpack_from(">hh", frame)
        if api_key not in FLEXIBLE:
            return None
        flexible = version >= FLEXIBLE[api_key]
        (client,) = struct.unpack_from(">h", frame, 8)
        at = 10 + max(0, client) + flexible
        name, at = _string(frame, at, flexible)
        if api_key == TXN_OFFSET_COMMIT:
            _, at = _string(frame, at, flexible)  # the group
        adds_position = api_key == ADD_OFFSETS_TO_TXN or (
            api_key == TXN_OFFSET_COMMIT and version >= TRANSACTIONS_V2[api_key]
        )
        return TxnRequest(api_key, flexible, adds_position, name, *struct.unpack_from(">qh", frame, at))


def _string(frame: bytes, at: int, flexible: bool) -> tuple[str, int]:
    """STRING or COMPACT_STRING, and where it ends."""
    if flexible:
        length, shift = -1, 0
        while True:
            byte = frame[at]
            at += 1
            length += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
    else:
        (length,) = struct.unpack_from(">h", frame, at)
        at += 2
    return frame[at : at + length].decode(), at + length


class HeldBack:
    """One EndTxn on its long way, and how it ended."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # of the transactional id
        self.request: TxnRequest | None = None  # once it is held
        self.during: TxnRequest | None = None  # the transaction that ran when it arrived
        self.error: int | None = None  # the broker's answer; -1: it closed the connection
        self._frame = b""
        self._broker: Streams | None = None

    def hold(self, request: TxnRequest, frame: bytes, streams: Streams) -> None:
        """Keep the request and its way to the broker."""
        self.request, self._frame, self._broker = request, frame, streams

    async def release(self, during: TxnRequest) -> None:
        """Let it arrive now, and read the answer to it.

        INT32 correlation, tags (none) where it is flexible, INT32 throttle time, INT16 error.
        """
        assert self._broker is not None and self.request is not None
        reader, writer = self._broker
        self.during = during
        writer.write(struct.pack(">i", len(self._frame)) + self._frame)
        try:
            answer = b""
            while answer[:4] != self._frame[4:8]:  # other answers may be before it
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size)
            (self.error,) = struct.unpack_from(">h", answer, 8 + self.request.flexible)
        except (OSError, asyncio.IncompleteReadError):  # its session has expired meanwhile (KIP-368)
            self.error = -1
        writer.close()
