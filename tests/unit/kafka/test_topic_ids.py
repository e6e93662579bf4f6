"""Which of the ids that brokers report for a topic counts."""

from __future__ import annotations

from mirror.kafka.topic_ids import ConfirmedIds


def ids(*found: str, known: str | None = None) -> list[str]:
    """What counts after each of these looks at one topic, if a plan knew it as `known`."""
    looks = ConfirmedIds()
    looks.learn({} if known is None else {"t": known})
    return [looks.look({"t": each})["t"] for each in found]


def test_another_id_counts_when_the_next_look_gives_it_again() -> None:
    assert ids("old", "new", "new", "new") == ["old", "old", "new", "new"]
    assert ids("new", "old", "new", "new", known="old") == ["old", "old", "old", "new"]
    assert ids("x", "y", "x", known="old") == ["old", "old", "old"], "they are not the same"


def test_a_former_id_never_counts_again() -> None:
    assert ids("old", "new", "new", "old", "old", "old") == ["old", "old", "new", "new", "new", "new"]
    assert ids("new", "new", "old", "old", known="old") == ["old", "new", "new", "new"], "nor one that only a plan knew"


def test_what_another_leader_has_confirmed_counts_at_once() -> None:
    looks = ConfirmedIds()
    assert looks.look({"t": "old"}) == {"t": "old"}
    looks.learn({"t": "new"})
    assert [looks.look({"t": each}) for each in ("old", "old", "new")] == [{"t": "new"}] * 3
    looks.learn({"t": "old"})
    assert looks.look({"t": "new"}) == {"t": "new"}, "a plan that is older than the last look"


def test_only_an_id_that_was_seen_once_is_doubtful_and_topics_that_are_gone_have_none() -> None:
    looks = ConfirmedIds()
    seen = [(looks.look(found), looks.doubtful) for found in ({"t": "old"}, {"t": "new", "u": "one"}, {"u": "one"})]
    assert seen == [({"t": "old"}, False), ({"t": "old", "u": "one"}, True), ({"u": "one"}, False)]
    assert looks.look({"t": "new"}) == {"t": "old"} and looks.doubtful, "the two looks follow each other"
