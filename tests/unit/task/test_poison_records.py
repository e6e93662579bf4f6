"""Halving until the culprit is alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror.clock import Clock
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.task.poison_records import PoisonRecords


def batch(offsets: list[int]) -> ConsumedBatch:
    messages: list[Any] = list(offsets)
    return ConsumedBatch(messages, [None] * len(offsets), [None] * len(offsets), offsets, offsets, 0)


@given(st.sets(st.integers(0, 60)), st.integers(1, 70))
def test_every_culprit_is_found_and_nothing_else(culprits: set[int], most: int) -> None:
    refusals, copied, aside, attempts = PoisonRecords(most, Clock()), [], [], 0
    at = 0
    while at <= 60:
        offsets = list(range(at, min(61, at + refusals.limit)))
        attempts += 1
        if refusals.culprit == offsets[0]:
            assert len(offsets) == 1 and refusals.reason == "too large"
            aside += offsets
        elif culprits & set(offsets):
            refusals.refused(batch(offsets), "too large", False)
            continue
        else:
            copied += offsets
        refusals.committed()
        at = offsets[-1] + 1
    assert aside == sorted(culprits)
    assert copied == sorted(set(range(61)) - culprits)
    assert attempts <= 61 // most + 1 + len(culprits) * 2 * 8


def test_many_culprits_one_after_another_are_found_at_once() -> None:
    """Each refusal costs a take-over. A compacted remote topic refuses each record without a key."""
    refusals, refused, at = PoisonRecords(20_000, Clock()), 0, 0
    while at < 1000:
        if refusals.culprit < 0:
            refused += 1
            refusals.refused(batch(list(range(at, at + refusals.limit))), "no key", False)
            continue
        refusals.committed()
        at += 1
    assert refused <= 1000 + 15


def test_a_failed_transform_has_no_batch_refused() -> None:
    refusals = PoisonRecords(100, Clock())
    refusals.not_transformed(batch([7]), "raised ValueError")
    assert refusals.limit == 1
    refusals.committed()
    assert refusals.limit == 100


def test_after_a_culprit_batches_grow_to_their_ordinary_size() -> None:
    refusals = PoisonRecords(100, Clock())
    refusals.refused(batch([7]), "too large", False)
    sizes = []
    for _ in range(9):
        refusals.committed()
        sizes.append(refusals.limit)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 100, 100]


def test_a_letter_that_is_refused_is_counted() -> None:
    refusals = PoisonRecords(100, Clock())
    refusals.refused(batch([7]), "too large", False)
    assert (refusals.culprit, refusals.refused_again, refusals.limit) == (7, 0, 1)
    refusals.refused(batch([7]), "too large again", True)
    assert (refusals.refused_again, refusals.reason) == (1, "too large")
    refusals.committed()
    assert (refusals.culprit, refusals.limit) == (-1, 1)


def test_a_record_that_is_tried_again_as_it_is_keeps_its_letter_whole() -> None:
    """The policy is to fail. A reload may change it to dead letters, and the letter then has all bytes."""
    refusals = PoisonRecords(100, Clock())
    for _ in range(5):
        refusals.refused(batch([7]), "too large", False)
    assert (refusals.culprit, refusals.refused_again) == (7, 0)


def test_batches_stay_smaller_when_there_is_no_culprit() -> None:
    """A limit on the bytes of a batch, not of a record."""
    refusals = PoisonRecords(100, Clock())
    refusals.refused(batch(list(range(100))), "too large", False)
    refusals.committed()
    assert refusals.limit == 50
