"""How much of what a flow selects the target has."""

from __future__ import annotations

from mirror.status.coverage import Coverage, covered
from mirror.topic_selection import TopicSelection

FOUND = {"a": 3, "b": 2, "internal": 5}
SELECTED = TopicSelection({"a": "p.a", "b": "p.b"}, {}, {})


def test_what_is_made_counts_and_what_is_not_selected_does_not() -> None:
    before = {"p.a": 1, "p.internal": 5}
    assert covered(SELECTED, FOUND, before, {"a": 3, "b": 2}, ()) == Coverage(2, 5, 2, 5)
    assert covered(SELECTED, FOUND, before, {"a": 1}, ()) == Coverage(2, 5, 1, 1), "the target refuses the rest"


def test_a_topic_without_a_possible_name_is_lacking() -> None:
    selected = TopicSelection({"a": "p.a"}, {}, {"the name is too long": ["b"]})
    found = covered(selected, FOUND, {}, {"a": 3}, ())
    assert found == Coverage(2, 5, 1, 3)
    assert not found.is_complete


def test_a_remote_topic_that_was_deleted_is_lacking_though_one_has_its_name_again() -> None:
    assert covered(SELECTED, FOUND, {"p.a": 3, "p.b": 2}, {"a": 3}, {"b"}) == Coverage(2, 5, 1, 3)
