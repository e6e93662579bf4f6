"""What several threads tell of a flow at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pytest

from mirror.control.reports import Counters
from mirror.model import Partition
from mirror.status.flow_status import Event, FlowStatus, PartitionStatus
from mirror.timing import SILENCE
from tests.harness.waiting import PATIENCE
from tests.unit.control.test_reports import report


class Slow(deque[Event]):
    """Events whose last one another thread looks at, and then waits: anything may come between look and change."""

    def __init__(self) -> None:
        super().__init__()
        self.looked, self.go_on = threading.Event(), threading.Event()

    def __getitem__(self, index: int) -> Event:  # type: ignore[override]
        found = super().__getitem__(index)
        self.looked.set()
        self.go_on.wait(0.5)
        return found


def tell_problem(status: FlowStatus) -> None:
    status.tell_problem("cluster backup does not answer")


def tell_lacking(status: FlowStatus) -> None:
    status.lacking = "2 partitions without a task for 30 s"


def tell(status: FlowStatus) -> None:
    status.remember("topic is not mirrored any more")


@pytest.mark.parametrize("what", [tell, tell_problem, tell_lacking])
def test_no_event_is_overwritten_by_what_another_thread_says(what: Callable[[FlowStatus], None]) -> None:
    """A second partition fails as the first did, and the flow says something between the look and the count."""
    status = FlowStatus("primary", "backup", "us")
    failed = [replace(report(1, number), state="retrying", reason="too large") for number in range(2)]
    status.absorb(failed[:1])
    slow = Slow()
    slow.extend(status._events)
    status._events = slow
    absorbing = threading.Thread(target=status.absorb, args=(failed[1:],))
    absorbing.start()
    assert slow.looked.wait(PATIENCE)

    def speak() -> None:
        what(status)
        slow.go_on.set()

    telling = threading.Thread(target=speak)
    telling.start()
    for thread in (absorbing, telling):
        thread.join(PATIENCE)
    newest, oldest = status.events()
    assert newest.partition is None and newest.reason, "what the flow said"
    assert (oldest.partition, oldest.others) == (Partition("topic", 0), 1)


def test_what_is_told_within_a_change_does_not_wait_for_itself() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.tell_problem("one")
    status.lacking = "one"
    status.remember("two")
    assert [event.reason for event in status.events()] == ["two", "one", "one"]


def test_an_event_says_where_somebody_else_wrote_and_comes_once_a_minute() -> None:
    status = FlowStatus("primary", "backup", "us")
    written = [
        replace(report(number), counters=Counters(records=number, foreign=foreign), foreign=(90, 90 + foreign))
        for number, foreign in ((1, 0), (2, 2), (3, 5))
    ]
    status.absorb(written)
    (event,) = status.events()
    assert (event.partition, event.reason) == (
        Partition("topic", 0),
        "somebody else wrote to primary.topic on backup, at offsets 90 to 92",
    )


def test_who_would_copy_more_without_a_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    status = FlowStatus("primary", "backup", "us")
    released = replace(report(1, 2), throttled=True, state="released")
    status.absorb([replace(report(1, 0), throttled=True), report(1, 1), released])
    assert status.throttled() == {Partition("topic", 0)}
    monkeypatch.setattr(PartitionStatus, "age", SILENCE + 1)
    assert status.throttled() == set(), "nobody knows"
