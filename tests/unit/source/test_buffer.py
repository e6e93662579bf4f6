"""The buffer between consumer and transactions: no hole, nothing twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirror.kafka.record_headers import HEADER_WEIGHT, weights
from mirror.source.buffer import RecordBuffer


def message(
    offset: int,
    value: bytes | None = b"v",
    key: bytes | None = None,
    headers: list[tuple[str, bytes | None]] | None = None,
) -> Message:
    timestamp = (1, 1000 + offset)
    return Message("t", 0, offset, key, value, headers, timestamp=timestamp)


def run(first: int, last: int) -> list[Message]:
    return [message(offset) for offset in range(first, last)]


def offsets(buffer: RecordBuffer) -> list[int]:
    batch = buffer.batch(10**6, 10**9)
    return batch.offsets if batch else []


def test_a_batch_stays_until_it_is_committed() -> None:
    buffer = RecordBuffer(5)
    buffer.append(run(5, 15))
    batch = buffer.batch(4, 10**6)
    assert batch is not None and buffer.batch(4, 10**6) == batch
    assert (batch.offsets, batch.timestamps, batch.next_offset) == ([5, 6, 7, 8], [1005, 1006, 1007, 1008], 9)
    buffer.committed(batch)
    assert offsets(buffer) == list(range(9, 15))
    assert (len(buffer), buffer.weight) == (6, 6)


def test_what_comes_again_is_dropped() -> None:
    buffer = RecordBuffer(0)
    buffer.append(run(0, 5))
    buffer.append(run(3, 8))
    buffer.append(run(2, 4))
    assert offsets(buffer) == list(range(8))


def test_a_batch_ends_before_too_many_bytes_but_has_one_record() -> None:
    buffer = RecordBuffer(0)
    buffer.append([message(offset, b"x" * size) for offset, size in enumerate((10, 10, 100, 1))])
    assert [taken(buffer, most) for most in (9, 19, 20, 119, 120, 121)] == [1, 1, 2, 2, 3, 4]


def test_null_values_count_for_nothing() -> None:
    buffer = RecordBuffer(0)
    buffer.append([message(0, None), message(1, b"xx"), message(2, None)])
    assert buffer.weight == 2 and taken(buffer, 2) == 3


def test_keys_and_headers_count_too() -> None:
    """They take memory like values, and a header some of its own, however short it is."""
    buffer = RecordBuffer(0)
    buffer.append([message(0, b"xx", b"yyy"), message(1, None, None, [("name", b"z" * 50), ("null", None)])])
    buffer.append([message(2, None, b"k")])
    second = 2 * HEADER_WEIGHT + len("name") + 50 + len("null")
    assert buffer.weight == 5 + second + 1
    assert [taken(buffer, most) for most in (4, 5, 4 + second, 5 + second, 6 + second)] == [1, 1, 1, 2, 3]
    batch = buffer.batch(2, 10**6)
    assert batch is not None and batch.weight == 5 + second
    buffer.committed(batch)
    assert (len(buffer), buffer.weight) == (1, 1)


def test_what_stays_after_a_resume_is_weighed() -> None:
    buffer = RecordBuffer(0)
    buffer.append([message(offset, b"x", b"k" * offset, [("h", b"")] * (offset % 2)) for offset in range(10)])
    assert buffer.resume_at(7) is None
    assert buffer.weight == sum(1 + offset + offset % 2 * (HEADER_WEIGHT + 1) for offset in (7, 8, 9))


def taken(buffer: RecordBuffer, most: int) -> int:
    batch = buffer.batch(100, most)
    return len(batch.messages) if batch else 0


def test_resuming_within_needs_no_seek() -> None:
    buffer = RecordBuffer(0)
    buffer.append(run(0, 10))
    assert buffer.resume_at(4) is None
    assert offsets(buffer) == list(range(4, 10)) and buffer.weight == 6
    assert buffer.resume_at(10) is None
    buffer.append(run(10, 12))
    assert offsets(buffer) == [10, 11]


def test_resuming_elsewhere_takes_nothing_from_before_the_seek() -> None:
    buffer = RecordBuffer(5)
    buffer.append(run(5, 10))
    seek = buffer.resume_at(2)
    assert seek is not None
    buffer.append(run(10, 12))
    assert offsets(buffer) == [] and buffer.drained_to is None
    buffer.sought(seek)
    buffer.append(run(2, 4))
    assert offsets(buffer) == [2, 3]


def test_a_seek_that_a_newer_one_replaced_opens_nothing() -> None:
    buffer = RecordBuffer(5)
    older, newer = buffer.resume_at(2), buffer.resume_at(1)
    assert older is not None and newer is not None
    buffer.sought(older)
    buffer.append(run(2, 4))
    assert offsets(buffer) == []
    buffer.sought(newer)
    buffer.append(run(1, 4))
    assert offsets(buffer) == [1, 2, 3]


def test_an_older_seek_to_the_same_offset_opens_nothing_either() -> None:
    """If it did, a batch could be committed before the newer seek is made, and be sent again after it."""
    buffer = RecordBuffer(0)
    buffer.invalidate()
    older = buffer.resume_at(0)
    buffer.invalidate()
    newer = buffer.resume_at(0)
    assert older is not None and newer is not None
    buffer.sought(older)
    buffer.append(run(0, 4))
    assert offsets(buffer) == []
    buffer.sought(newer)
    buffer.append(run(0, 4))
    assert offsets(buffer) == [0, 1, 2, 3]


def test_the_sources_end_is_reached_only_with_nothing_left_and_no_seek_under_way() -> None:
    buffer = RecordBuffer(0)
    buffer.append(run(0, 3))
    buffer.reached(5)  # 3 and 4 are markers
    assert buffer.drained_to is None
    batch = buffer.batch(10, 10**6)
    assert batch is not None
    buffer.committed(batch)
    assert buffer.drained_to == 5
    seek = buffer.resume_at(9)
    assert seek is not None
    buffer.reached(20)
    assert buffer.drained_to is None
    buffer.sought(seek)
    assert buffer.drained_to == 9


def test_going_back_takes_again_what_was_no_record() -> None:
    buffer = RecordBuffer(0)
    buffer.append(run(0, 3))
    buffer.reached(5)
    assert buffer.go_back(3)
    buffer.append(run(4, 6))  # the log was cut, and 4 is a record now
    assert offsets(buffer) == [0, 1, 2, 4, 5]
    assert buffer.go_back(1)
    buffer.append(run(1, 8))
    assert offsets(buffer) == [0, 1, 2, 4, 5, 6, 7]
    buffer.seal()
    assert not buffer.go_back(3)
    buffer.invalidate()
    assert not buffer.go_back(3)


def test_after_invalidate_everything_needs_a_seek() -> None:
    buffer = RecordBuffer(0)
    buffer.append(run(0, 10))
    batch = buffer.batch(5, 10**6)
    buffer.invalidate()
    assert batch is not None
    buffer.committed(batch)
    assert len(buffer) == 0 and buffer.weight == 0
    assert buffer.resume_at(5) is not None


def is_record(offset: int) -> bool:
    """True if the machine's source has a record here. Other offsets are markers, aborted or compacted away."""
    return offset % 5 not in (2, 3)


class Copying(RuleBasedStateMachine):
    """One partition: a consumer that gives records again, transactions with all outcomes, another owner between."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = RecordBuffer(0)
        self.fetched = 0  # the consumer's position
        self.taken = 0  # after the last record that it gave
        self.position = 0  # the truth, on the target
        self.seeks: deque[tuple[int, int]] = deque()  # asked for, not made yet: offset and number

    @rule(back=st.integers(0, 3), count=st.integers(1, 10))
    def fetch(self, back: int, count: int) -> None:
        first = max(0, self.fetched - back)
        messages = [message(offset) for offset in range(first, first + count) if is_record(offset)]
        if messages:
            self.taken = messages[-1].offset() + 1
            self.fetched = max(self.fetched, self.taken)
            self.buffer.append(messages)

    @rule()
    def reach_the_end(self) -> None:
        while not is_record(self.fetched):
            self.fetched += 1
        self.buffer.reached(self.fetched)

    @rule(most=st.integers(1, 10), applied=st.booleans(), known=st.booleans())
    def transact(self, most: int, applied: bool, known: bool) -> None:
        batch = self.buffer.batch(most, 10**6)
        if batch is None:
            return
        assert batch.offsets == [offset for offset in range(self.position, batch.next_offset) if is_record(offset)]
        if applied:
            self.position = batch.next_offset
        if applied and known:
            self.buffer.committed(batch)
        else:
            self.take_over()

    @rule()
    def settle(self) -> None:
        """An idle partition's position goes on past what is no record."""
        drained_to = self.buffer.drained_to
        if drained_to is not None and drained_to > self.position:
            assert not any(map(is_record, range(self.position, drained_to)))
            self.position = drained_to

    @rule(copied=st.integers(0, 20))
    def another_owner_was_here(self, copied: int) -> None:
        self.position += copied
        self.take_over()

    @rule()
    def forget(self) -> None:
        self.buffer.invalidate()
        self.take_over()

    def take_over(self) -> None:
        number = self.buffer.resume_at(self.position)
        if number is not None:
            self.seeks.append((self.position, number))

    @precondition(lambda self: self.seeks)
    @rule()
    def make_a_seek(self) -> None:
        self.fetched, number = self.seeks.popleft()
        self.taken = self.fetched
        self.buffer.sought(number)

    @rule()
    def look_for_a_cut(self) -> None:
        """A newer leader: the consumer goes back to just after the last record."""
        if self.buffer.go_back(self.taken):
            self.fetched = self.taken

    @invariant()
    def what_is_held_follows_the_position(self) -> None:
        held = offsets(self.buffer)
        if held:
            assert held == [offset for offset in range(self.position, held[-1] + 1) if is_record(offset)]
        assert self.buffer.weight == len(held) == len(self.buffer)


TestCopying = Copying.TestCase
TestCopying.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.integers(1, 7), st.integers(1, 500))
def test_batches_are_the_records_in_order(gaps: list[int], most: int, most_bytes: int) -> None:
    at, sent = 0, []
    buffer = RecordBuffer(0)
    for gap in gaps:
        at += gap
        sent.append(at)
        buffer.append([message(at, b"x" * gap, b"k" * (gap - 1) or None, [("h", b"c")] * (gap == 5))])
    seen: list[int] = []
    while (batch := buffer.batch(most, most_bytes)) is not None:
        assert len(batch.messages) <= most
        assert len(batch.messages) == 1 or sum(weights(batch.messages, batch.keys, batch.headers)) <= most_bytes
        seen += batch.offsets
        buffer.committed(batch)
    assert seen == sent


def test_a_batch_has_the_keys_and_headers_that_the_buffer_has_read() -> None:
    """Keys and headers stay in step with the records, wherever the buffer was cut."""
    buffer = RecordBuffer(0)
    sent = [message(offset, b"v", b"%d" % offset, [("h", b"%d" % offset)] * (offset % 3)) for offset in range(20)]
    buffer.append(sent[:12])
    buffer.append(sent[10:])
    first = buffer.batch(5, 10**6)
    assert first is not None
    buffer.committed(first)
    assert buffer.resume_at(7) is None
    for batch, begin in ((first, 0), (buffer.batch(4, 10**6), 7)):
        assert batch is not None and batch.offsets[0] == begin
        assert batch.keys == [b"%d" % offset for offset in batch.offsets]
        assert [len(each or ()) for each in batch.headers] == [offset % 3 for offset in batch.offsets]


def test_what_a_filter_leaves_out_is_an_offset_without_a_record() -> None:
    """The position moves past such an offset, and nothing waits for it; so it is with aborted records."""
    own: list[tuple[str, bytes | None]] = [("h", b"1")]

    def odd(messages: Sequence[Message], headers: Sequence[Any]) -> tuple[list[Message], list[Any]]:
        kept = [each for each in messages if int(each.offset() or 0) % 2]
        return kept, [own] * len(kept)

    buffer = RecordBuffer(0, odd)
    buffer.append(run(0, 5))
    batch = buffer.batch(10, 10**6)
    assert batch is not None and (batch.offsets, batch.headers) == ([1, 3], [own, own])
    assert buffer.weight == sum(weights(run(0, 2), [None, None], [own, own]))
    assert (buffer.drained_to, buffer.left_out) == (None, 3)
    buffer.committed(batch)
    assert (buffer.drained_to, batch.next_offset) == (5, 4)
    assert buffer.resume_at(4) is None, "the consumer need not go back for what is left out"
    buffer.append(run(3, 5))
    assert (buffer.left_out, buffer.drained_to) == (3, 5), "what comes again is not counted again"
    buffer.append(run(6, 7))
    assert (len(buffer), buffer.drained_to, buffer.left_out) == (0, 7, 4)


def test_nothing_is_taken_from_its_end_on() -> None:
    """What is there of it is dropped, and what comes of it, too. A seek makes another beginning."""
    buffer = RecordBuffer(5)
    buffer.append(run(5, 15))
    assert not buffer.has_end
    assert buffer.end_at(12) and offsets(buffer) == list(range(5, 12)) and buffer.weight == 7
    assert buffer.has_end and not buffer.end_at(14), "what comes before that was dropped"
    buffer.append(run(15, 20))
    buffer.reached(30)
    batch = buffer.batch(4, 10**6)
    assert batch is not None and not buffer.ended
    buffer.committed(batch)
    rest = buffer.batch(10, 10**6)
    assert rest is not None and rest.offsets == [9, 10, 11]
    buffer.committed(rest)
    assert buffer.ended and buffer.drained_to == buffer.read_to == 12
    seek = buffer.resume_at(3)
    assert seek is not None and not buffer.ended and not buffer.has_end
    buffer.sought(seek)
    buffer.append(run(3, 20))
    assert offsets(buffer) == list(range(3, 20))


def test_its_end_may_come_later_or_be_reached_without_records() -> None:
    buffer = RecordBuffer(5)
    buffer.append(run(5, 7))
    assert buffer.end_at(9) and not buffer.ended
    buffer.append([*run(7, 8), *run(20, 22)])  # of 8 there is no record
    assert offsets(buffer) == [5, 6, 7]
    idle = RecordBuffer(5)
    assert idle.end_at(7) and not idle.ended
    idle.reached(6)
    assert not idle.ended
    idle.reached(9)
    assert idle.ended and idle.drained_to == 7
    here = RecordBuffer(5)
    assert here.end_at(5) and here.ended


def test_an_end_that_comes_too_late_is_none() -> None:
    buffer = RecordBuffer(5)
    buffer.append(run(5, 8))
    batch = buffer.batch(10, 10**6)
    assert batch is not None
    buffer.committed(batch)
    assert not buffer.end_at(7) and not buffer.ended
    buffer.append(run(8, 10))
    assert offsets(buffer) == [8, 9]
    buffer.seal()
    assert not buffer.end_at(9)
    buffer.invalidate()
    assert not buffer.end_at(9) and not buffer.ended
