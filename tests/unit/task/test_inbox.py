"""Events come in order, and few of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from mirror.control.partition_state import State
from mirror.source.fetch_events import EndReached, ReadingBegan, ReadingLost, RecordsArrived, SourceRefused
from mirror.task.events import SETTLE_DELAY, DecisionMade, Event, LetGo, RenewalDue, delay_of
from mirror.task.inbox import Inbox

EVENTS: list[Event] = [
    ReadingBegan(),
    RecordsArrived(),
    EndReached(),
    SourceRefused("no permission", True),
    SourceRefused("not now", False),
    ReadingLost("out of range"),
    LetGo(State.PAUSED),
    LetGo(State.RELEASED),
    DecisionMade(),
    RenewalDue(),
]


@given(st.lists(st.sampled_from(EVENTS)))
def test_of_equal_events_the_last_one_stays(posted: list[Event]) -> None:
    inbox = Inbox()
    for event in posted:
        inbox.post(event)
    last = [event for index, event in enumerate(posted) if event not in posted[index + 1 :]]
    assert list(inbox.waiting()) == last
    assert list(inbox.drain()) == last
    assert not inbox.drain() and not inbox.waiting()


def test_nothing_that_several_threads_post_is_lost() -> None:
    inbox = Inbox()
    drained: list[Event] = []
    with ThreadPoolExecutor(4) as pool:
        posting = [pool.submit(inbox.post, ReadingLost(str(number))) for number in range(400)]
        while not all(each.done() for each in posting):
            drained += inbox.drain()
    drained += inbox.drain()
    assert {event.reason for event in drained if isinstance(event, ReadingLost)} == set(map(str, range(400)))
    assert len(drained) == 400


def test_what_people_wait_for_is_done_at_once_and_the_rest_is_paced() -> None:
    at_once = [event for event in EVENTS if delay_of(event, paced=60, owes=False) == 0]
    assert at_once == [LetGo(State.PAUSED), LetGo(State.RELEASED), DecisionMade()]
    assert all(delay_of(event, paced=60, owes=False) == 60 for event in EVENTS if event not in at_once)


def test_an_idle_partition_waits_a_second_before_it_settles() -> None:
    assert [event for event in EVENTS if delay_of(event, paced=0, owes=False) == SETTLE_DELAY] == [EndReached()]
    assert delay_of(EndReached(), paced=60, owes=True) == SETTLE_DELAY, "even if its last try has failed"
