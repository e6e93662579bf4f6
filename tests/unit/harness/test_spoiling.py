"""What is spoiled of a broker's answers, and that rounds one after another play every case."""

from __future__ import annotations

import random
import struct
from itertools import product

import pytest

from tests.chaos.__main__ import schedule
from tests.chaos.matrix import in_turn
from tests.chaos.rows import rows_for
from tests.chaos.wire import AIMS, ALL_STEPS, CLUSTERS, OF_NEW_WORKERS, REQUESTS
from tests.harness.spoiling import How, Spoiler, ThrottleWatch, cut_off, garbage, silence

ANSWER = struct.pack(">i", 7) + b"\0" + struct.pack(">i", 0) + b"mirror-group"
FETCH, PRODUCE, END_TXN, OFFSET_FETCH = (REQUESTS[each] for each in ("Fetch", "Produce", "EndTxn", "OffsetFetch"))


def spoiler(key: int = FETCH, how: How = silence, **more: object) -> Spoiler:
    found = Spoiler(key, how, random.Random(1), **more)  # type: ignore[arg-type]
    found.active = True
    return found


def test_nothing_is_spoiled_before_it_is_active_but_what_is_answered_is_known() -> None:
    found = Spoiler(FETCH, silence, random.Random(1), others=1.0)
    assert found(FETCH, ANSWER) is None
    assert found(PRODUCE, ANSWER) is None
    assert found.seen == {FETCH, PRODUCE}
    assert not found.given


def test_answers_to_one_kind_never_come_and_all_others_do() -> None:
    found = spoiler()
    assert [found(FETCH, ANSWER) for _ in range(3)] == [(b"", False)] * 3
    assert found.given == 3
    assert found(PRODUCE, ANSWER) is None


def test_an_answer_without_the_marker_is_spoiled_and_does_not_count() -> None:
    found = spoiler(OFFSET_FETCH, marker=b"mirror-group", share=0.0)
    answers = (ANSWER[:9] + b"another", ANSWER, ANSWER)
    given = [(found(OFFSET_FETCH, each), found.given) for each in answers]
    assert given == [((b"", False), 0), ((b"", False), 1), (None, 1)]


def test_what_leads_to_the_kind_is_spoiled_until_an_answer_of_the_kind_is() -> None:
    found = spoiler(FETCH, also=(END_TXN,))
    assert found(END_TXN, ANSWER) == (b"", False)
    assert not found.given
    assert found(FETCH, ANSWER) == (b"", False)
    assert found(END_TXN, ANSWER) is None


def test_shares_of_the_kind_and_of_all_others() -> None:
    found = spoiler(FETCH, share=0.5, others=0.1)
    spoiled = {key: sum(found(key, ANSWER) is not None for _ in range(1000)) for key in (FETCH, PRODUCE)}
    assert 400 < spoiled[FETCH] == found.given < 600
    assert 50 < spoiled[PRODUCE] < 150


def test_an_answer_is_cut_off_before_its_end() -> None:
    whole = struct.pack(">i", len(ANSWER)) + ANSWER
    for _ in range(100):
        data, ends = cut_off(random.Random())(ANSWER)
        assert ends
        assert len(data) < len(whole)
        assert whole.startswith(data)


def test_garbage_is_never_the_answer() -> None:
    how = garbage(random.Random(1))
    given = [how(ANSWER) for _ in range(100)]
    assert not any(ends for _, ends in given)
    assert struct.pack(">i", len(ANSWER)) + ANSWER not in [data for data, _ in given]


def test_a_broker_that_throttles_is_seen() -> None:
    watch = ThrottleWatch()
    throttled = ANSWER[:5] + struct.pack(">i", 300) + ANSWER[9:]
    watch(FETCH, ANSWER)
    watch(PRODUCE, throttled)  # it begins with something else
    watch(FETCH, b"\0" * 4)
    assert not watch.throttled
    watch(END_TXN, throttled)
    assert watch.throttled


def test_each_kind_is_asked_of_its_cluster() -> None:
    assert len(set(AIMS)) == len(AIMS)
    assert {kind for _, kind in AIMS} == REQUESTS.keys()
    assert set(AIMS) >= OF_NEW_WORKERS
    never = ("Produce", "EndTxn", "TxnOffsetCommit", "InitProducerId", "ListOffsets", "OffsetCommit")
    assert not {("source", kind) for kind in never} & set(AIMS)


@pytest.mark.parametrize("cases", [AIMS, ALL_STEPS, tuple(product(CLUSTERS, ALL_STEPS))])
@pytest.mark.parametrize("seed", [0, 7, 63_000])
def test_twenty_rounds_play_each_case(cases: tuple[object, ...], seed: int) -> None:
    recordings = schedule(rows_for(batches=True), ["no-answers"], rounds=20, randoms=0, seed=seed)
    turns = [at * row.together + number for _, at, rows in recordings for number, row in enumerate(rows)]
    assert {in_turn(cases, turn) for turn in turns} == set(cases)
