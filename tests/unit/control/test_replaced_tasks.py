"""Which claims on the control topic mean that a task was lost."""

from __future__ import annotations

from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import Claim
from mirror.control.kept_claims import HOLDERS, REMEMBERED
from mirror.settings import Flow
from tests.unit.control.test_control_reader import Entry, Log, flow, topic  # noqa: F401  # fixtures

FIRST = [Claim(0, "a", "us", "one"), Claim(1, "b", "us", "one")]


def entries(*claims: Claim) -> list[Entry]:
    return [(claim.key(), claim.encode()) for claim in claims]


def taken_over(flow: Flow, topic: Log, *claims: Claim) -> list[str]:  # noqa: F811
    topic.entries += entries(*claims)
    reader = ControlReader(flow)
    reader.read_to_end()
    assert reader.claims == {claim.slice: claim.task for claim in claims}, "whoever came last has it"
    return [claim.task for claim in reader.kept_claims.replaced]


def test_another_task_of_the_same_epoch_takes_over(flow: Flow, topic: Log) -> None:  # noqa: F811
    again = [Claim(1, "c", "us", "one"), Claim(1, "d", "us", "one"), Claim(0, "e", "us", "one")]
    assert taken_over(flow, topic, *FIRST, *again) == ["c", "d", "e"]


def test_another_epoch_takes_nothing_over(flow: Flow, topic: Log) -> None:  # noqa: F811
    """The number of slices has changed, the query was started again, or there is another service."""
    next_, theirs = Claim(0, "c", "us", "two"), Claim(0, "d", "them", "three")
    assert taken_over(flow, topic, *FIRST, next_, theirs) == []


def test_claims_of_an_older_mirror_replace_no_task(flow: Flow, topic: Log) -> None:  # noqa: F811
    older = [(Claim(0, "").key(), b'{"task":"a"}'), (Claim(0, "").key(), b'{"task":"b"}')]
    topic.entries += older
    reader = ControlReader(flow)
    reader.read_to_end()
    assert reader.claims == {0: "b"} and not reader.kept_claims.replaced


def test_a_claim_that_is_read_again_counts_once(flow: Flow, topic: Log) -> None:  # noqa: F811
    """A reader starts again at the first record after the end of the topic was lost."""
    once = [FIRST[0], Claim(0, "c", "us", "one")]
    assert taken_over(flow, topic, *once, *once) == ["c"]


def test_replaced_tasks_that_nobody_removes_are_bounded(flow: Flow, topic: Log) -> None:  # noqa: F811
    claims = [Claim(0, str(number), "us", "one") for number in range(REMEMBERED + 10)]
    assert len(taken_over(flow, topic, *claims)) == REMEMBERED


def test_the_tasks_of_a_slice_that_are_known_are_bounded(flow: Flow, topic: Log) -> None:  # noqa: F811
    """A task that fails again and again leaves a claim each time, and all readers read them."""
    claims = [Claim(0, str(number), "us", "one") for number in range(3 * HOLDERS)]
    topic.entries += entries(*claims, *claims[-HOLDERS:])
    reader = ControlReader(flow)
    reader.read_to_end()
    assert len(reader.kept_claims.replaced) == len(claims) - 1, "each counts once"
    ((_, known),) = reader.kept_claims._holders.values()
    assert len(known) == HOLDERS
