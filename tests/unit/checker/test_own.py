"""The judge of what programs write to the target judged: right records pass, and each way to be wrong is caught."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.checker.history import Fate, Record, Sent
from tests.checker.own import check_own

FATES: tuple[Fate, ...] = ("acknowledged", "aborted", "unknown")
Written = tuple[list[Sent], list[Record]]


def record(offset: int, number: int) -> Record:
    return Record(offset, None, b"%d" % number, (), 1000 + number)


@st.composite
def written(draw: st.DrawFn) -> Written:
    """What was sent, and what is there of it: all that was acknowledged, nothing aborted, and some of the rest."""
    fates: list[Fate] = [*draw(st.lists(st.sampled_from(FATES), max_size=20)), *FATES]
    sent = [Sent(None, b"%d" % number, (), fate) for number, fate in enumerate(fates)]
    stand = [n for n, fate in enumerate(fates) if fate == "acknowledged" or (fate == "unknown" and draw(st.booleans()))]
    return sent, [record(offset, number) for offset, number in enumerate(stand)]


def caught(sent: Sequence[Sent], there: Sequence[Record], here: Sequence[Record] = ()) -> set[str]:
    return {violation.invariant for violation in check_own(sent, there, here)}


@given(written())
def test_right_records_pass(right: Written) -> None:
    sent, there = right
    assert not check_own(sent, there, [record(0, 10**6)]), "the source's programs have sent others"


@given(written(), st.data())
def test_an_acknowledged_record_that_vanished(right: Written, data: st.DataObject) -> None:
    sent, there = right
    gone = data.draw(st.sampled_from([each.identity for each in sent if each.fate == "acknowledged"]))
    assert caught(sent, [each for each in there if each.identity != gone]) == {"I1"}


@given(written(), st.data(), st.sampled_from(("aborted", "foreign")))
def test_a_record_that_no_program_has_written(right: Written, data: st.DataObject, kind: str) -> None:
    """A copy without the header is one: the source's programs have sent it."""
    sent, there = right
    aborted = [number for number, each in enumerate(sent) if each.fate == "aborted"]
    number = data.draw(st.sampled_from(aborted)) if kind == "aborted" else 10**6
    assert caught(sent, [*there, record(len(there), number)]) == {"I4"}


@given(written(), st.data())
def test_a_record_that_is_there_twice(right: Written, data: st.DataObject) -> None:
    sent, there = right
    again = data.draw(st.sampled_from(there))
    assert caught(sent, [*there, again._replace(offset=len(there))]) == {"I2"}


@given(written(), st.data())
def test_a_copy_on_the_source_that_does_not_look_like_one(right: Written, data: st.DataObject) -> None:
    sent, there = right
    assert caught(sent, there, [data.draw(st.sampled_from(there))]) == {"I2"}
