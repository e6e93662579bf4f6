"""Record batches: written records are read back, and damaged ones are refused with the reader's own error."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror import varints
from mirror.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from mirror.batches.headers import LOG_APPEND_TIME, TRANSACTIONAL, RecordBatch, committed, walk
from mirror.batches.records import Content, decode, encode, records
from mirror.errors import Malformed
from tests.harness import batches
from tests.harness.batches import Made
from tests.harness.memory import MIB

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)

parts = st.none() | st.binary(max_size=40) | st.builds(bytes.__mul__, st.binary(min_size=1, max_size=9), st.just(3000))
headers = st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=20)), max_size=5)
contents = st.builds(Content, parts, parts, headers | st.just([(b"na\0me", b"")] * 100))
timestamps = st.integers(-1, 2**50)


@st.composite
def made(draw: st.DrawFn) -> list[Made]:
    """Records with gaps between their offsets."""
    offset, found = draw(st.integers(0, 2**40)), []
    for step, timestamp, content in draw(st.lists(st.tuples(st.integers(1, 200), timestamps, contents), min_size=1)):
        offset += step
        found.append((offset, timestamp, content))
    return found


def read(data: bytes) -> list[tuple[int, int, bytes]]:
    return [record for batch in walk(memoryview(data)) for record in records(batch)]


def simple(count: int, first: int = 0) -> list[Made]:
    return [(n, n, Content(b"%d" % n, b"value", [(b"name", b"%d" % n)])) for n in range(first, first + count)]


@given(made(), st.integers(1, 9), st.sampled_from(CODECS), st.booleans())
def test_written_records_are_read_back(whole: list[Made], size: int, codec: int, xerial: bool) -> None:
    some = [whole[at : at + size] for at in range(0, len(whole), size)]
    data = b"".join(batches.batch(each, codec, xerial=xerial) for each in some)
    assert read(data) == [(offset, at, encode(content)) for each in some for offset, at, content in each]
    assert len(walk(memoryview(data)[:-1])) == len(some) - 1, "a cut one is left out: so Fetch answers end"


@given(contents)
def test_a_content_is_its_encoding(content: Content) -> None:
    assert decode(encode(content)) == Content(content.key, content.value, tuple(content.headers))


@given(st.integers(-(2**63), 2**63 - 1))
@example(-1)
def test_numbers(number: int) -> None:
    assert varints.read(varints.write(number) + b"\x80", 0) == (number, len(varints.write(number)))


@given(st.integers(0, 10**6), st.integers(0, 7), st.sampled_from(CODECS))
def test_a_flipped_bit_is_noticed(at: int, bit: int, codec: int) -> None:
    data = bytearray(batches.batch(simple(20), codec))
    data[at % len(data)] ^= 1 << bit
    # The broker sets the offset (bytes 0 to 7) and the leader epoch (12 to 15), so the checksum does not cover them.
    if 8 <= at % len(data) < 12:
        length = struct.unpack_from(">i", data, 8)[0]
        if length + 12 > len(data):
            assert walk(memoryview(data)) == []  # like a batch that is cut off
            return
    elif at % len(data) < 16:
        return
    with pytest.raises(Malformed):
        walk(memoryview(data))


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=4), st.sampled_from(CODECS), st.booleans())
def test_nonsense_with_a_correct_checksum_is_refused(at: int, nonsense: bytes, codec: int, cut: bool) -> None:
    """The result is either an error of ours, or records within the batch."""
    payload = bytearray(batches.packed(b"".join(batches.record(n, n, encode(c)) for n, _, c in simple(20)), codec))
    at %= len(payload)
    payload[at:] = b"" if cut else nonsense + payload[at + len(nonsense) :]
    try:
        found = read(batches.raw(bytes(payload), 20, 100, 119, attributes=codec))
    except Malformed as error:
        assert "offset 100" in str(error)
    else:
        assert len(found) == 20 and all(100 <= offset < 120 for offset, _, _ in found)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        read(data)


def test_a_longer_encoding_of_a_number_does_not_change_the_content() -> None:
    plain = encode(Content(b"key", b"value", [(b"name", b"x")]))
    assert plain.startswith(b"\x06key\x0avalue\x02\x08name\x02x")
    longer = b"\x86\x00key\x8a\x80\x00value\x82\x00\x88\x00name\x82\x00x"
    (found,) = read(batches.raw(batches.record(0, 0, longer), 1, 0, 0))
    assert found == (0, 0, plain)


def test_the_broker_s_timestamp() -> None:
    data = batches.batch(simple(3), attributes=LOG_APPEND_TIME)
    assert [timestamp for _, timestamp, _ in read(data)] == [2, 2, 2]


def test_a_batch_that_compaction_has_emptied() -> None:
    (batch,) = walk(memoryview(batches.raw(b"", 0, 10, 19)))
    assert (batch.first, batch.last, list(records(batch))) == (10, 19, [])


def test_an_old_format_is_recognised_but_not_read() -> None:
    message = b"\1\0" + struct.pack(">qii", 1, -1, -1)  # format 1: attributes, timestamp, null, null
    entry = struct.pack(">qiI", 7, 4 + len(message), zlib.crc32(message)) + message
    (batch,) = walk(memoryview(entry))
    assert (batch.is_old, batch.last) == (True, 7)


def test_aborted_transactions_and_markers_are_left_out() -> None:
    def of(producer: int, first: int, transactional: bool = True) -> bytes:
        return batches.batch(simple(2, first), attributes=TRANSACTIONAL if transactional else 0, producer=producer)

    log = [
        of(1, 0),  # aborted at 10
        of(2, 2),  # committed at 12
        of(1, 4, transactional=False),  # an idempotent producer's
        of(1, 6),  # aborted
        of(-1, 8, transactional=False),
        batches.marker(10, 1, commit=False),
        batches.marker(12, 2, commit=True),
        of(1, 14),  # the next transaction of the same producer, committed
        of(2, 16),  # aborted: in the list once more
    ]
    aborted = [(2, 16), (1, 0)]
    seen: list[RecordBatch] = list(committed(walk(memoryview(b"".join(log))), aborted))
    assert [batch.first for batch in seen] == [2, 4, 8, 14]
    # The answer begins within the transaction, and so does the next one: the list has it in both.
    rest = b"".join(log[3:])
    assert [batch.first for batch in committed(walk(memoryview(rest)), aborted)] == [8, 14]


# Its own peak is asked of the kernel: getrusage counts the process that started it, too.
BOMB = """
import os, zlib
from mirror.batches.headers import walk
from mirror.batches.records import records
from mirror.batches.codecs import GZIP, PIECE
from tests.harness import batches
from tests.harness.memory import peak
from mirror.batches.records import Content, encode
content = encode(Content(None, bytes(PIECE), ()))
made, count = zlib.compressobj(1, wbits=31), 600
payload = b"".join(made.compress(batches.record(n, 0, content)) for n in range(count)) + made.flush()
data = memoryview(batches.raw(payload, count, 0, count - 1, attributes=GZIP))
(batch,) = walk(data)
assert sum(1 for _ in records(batch)) == count
print(peak(os.getpid()))
"""


def test_a_batch_that_unpacks_to_much_needs_little_memory() -> None:
    ended = subprocess.run([sys.executable, "-c", BOMB], capture_output=True, text=True, check=True, timeout=120)
    assert int(ended.stdout) < 250 * MIB, "for 600 MiB"
