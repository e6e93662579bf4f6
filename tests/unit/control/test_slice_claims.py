"""How a task finds that the slice is its own: it waits until it can read its claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mirror.control import control_reader, control_topics, slice_claims
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import READ_TIMEOUT, Claim, ControlWriter
from mirror.control.slice_claims import POLL_TIMEOUT, READ_BACK, Claimant
from mirror.errors import ClusterAway, FlowError
from mirror.settings import Flow
from mirror.timing import ABORT_INTERVAL, LEADER_TRANSACTION
from tests.unit.control.test_control_reader import Log, Message, flow  # noqa: F401  # a fixture

OURS, BEFORE, AFTER = (Claim(3, name, "us", "one") for name in ("ours", "before", "after"))


@dataclass
class Topic(Log):
    """A control topic, on which a transaction may be open: it hides what follows it. It is its own writer."""

    opened: int | None = None  # where the open transaction begins
    ends: float = 0.0  # when it ends
    then: Callable[[], object] = lambda: None  # what happens at that time
    polls: list[float] = field(default_factory=list)
    away: bool = False

    def claim(self, claim: Claim) -> None:
        self.entries.append((claim.key(), claim.encode()))

    @property
    def stable(self) -> int:
        """The last stable offset."""
        if self.opened is not None and self.now >= self.ends:
            self.opened = None
            self.then()
        return len(self.entries) if self.opened is None else self.opened

    def get_watermark_offsets(self, _partition: object, _timeout: float) -> tuple[int, int]:
        if self.away:
            raise ClusterAway("backup", "no answer")
        return 0, self.stable

    def poll(self, timeout: float) -> Message | None:
        self.polls.append(timeout)
        stable = 0 if self.away else self.stable
        self.held_back = len(self.entries) - stable
        return super().poll(timeout)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    """The control topic, with the claim of the task before ours."""
    found = Topic()
    found.claim(BEFORE)
    monkeypatch.setattr(control_reader, "internal_consumer", lambda *_: found)
    monkeypatch.setattr(control_reader, "TopicIds", lambda: found.ids)
    for module in (control_reader, control_topics, slice_claims):
        monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def control(flow: Flow, topic: Topic) -> ControlReader:  # noqa: F811
    """What the task reads. It has just read the topic to its end."""
    found = ControlReader(flow, follow=True)
    found.read_to_end()
    topic.polls.clear()
    return found


@pytest.fixture
def claimant(flow: Flow, topic: Topic, control: ControlReader, monkeypatch: pytest.MonkeyPatch) -> Claimant:  # noqa: F811
    monkeypatch.setattr(ControlWriter, "__init__", lambda *_: None)
    monkeypatch.setattr(ControlWriter, "claim", lambda _, claim: topic.claim(claim))
    return Claimant(flow, control, ControlWriter(flow), OURS)


def test_a_task_has_read_its_claim_at_once(topic: Topic, control: ControlReader, claimant: Claimant) -> None:
    claimant.claim()
    assert control.claims == {3: "ours"} and topic.now == 0.0


def test_it_waits_while_a_transaction_hides_its_claim(topic: Topic, control: ControlReader, claimant: Claimant) -> None:
    """A flow leader has died in it, together with the task that ours replaces."""
    topic.opened, topic.ends = 1, LEADER_TRANSACTION + ABORT_INTERVAL
    claimant.claim()
    assert control.claims == {3: "ours"}
    assert topic.ends <= topic.now < topic.ends + 1.0
    assert len(topic.polls) < 2 * topic.ends / POLL_TIMEOUT, "it is no busy loop"


def test_a_claim_that_never_comes_is_given_up(topic: Topic, control: ControlReader, claimant: Claimant) -> None:
    topic.opened, topic.ends = 1, float("inf")
    with pytest.raises(FlowError, match=r"the claim of slice 3 .* can't be read back"):
        claimant.claim()
    assert READ_BACK <= topic.now < READ_BACK + 1.0


def test_a_newer_task_that_has_claimed_the_slice_meanwhile_has_it(
    topic: Topic, control: ControlReader, claimant: Claimant
) -> None:
    topic.opened, topic.ends, topic.then = 1, 5.0, lambda: topic.claim(AFTER)
    claimant.claim()
    assert control.claims == {3: "after"} and topic.now < 6.0


def test_a_target_that_is_away_is_not_taken_for_a_transaction(topic: Topic, claimant: Claimant) -> None:
    topic.opened, topic.ends, topic.away = 1, float("inf"), True
    with pytest.raises(ClusterAway):
        claimant.claim()
    assert topic.now < READ_BACK + READ_TIMEOUT


def test_a_claim_on_a_topic_that_is_deleted_meanwhile_is_written_again(
    topic: Topic, control: ControlReader, claimant: Claimant
) -> None:
    topic.opened, topic.ends, topic.then = 1, 5.0, topic.recreate
    claimant.claim()
    assert control.claims == {3: "ours"} and control.recreations == 1 and topic.now < 6.0


def test_a_recreated_topic_gets_the_claim_without_a_wait(
    topic: Topic, control: ControlReader, claimant: Claimant
) -> None:
    """The task copies meanwhile. What it has read before holds on."""
    claimant.claim()
    topic.recreate()
    control.poll(0.1)
    topic.opened, topic.ends, before = 0, float("inf"), topic.now
    claimant.keep()
    assert [key for key, _ in topic.entries] == [OURS.key()] and topic.now == before
    assert control.claims == {3: "ours"}
