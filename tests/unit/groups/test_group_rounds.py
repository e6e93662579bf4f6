"""When each group was last in step with its copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_rounds import pause, synced_at
from mirror.groups.selected import NOT_MIRRORED
from tests.unit.status.test_group_overview import stands


@pytest.mark.parametrize("outcome", GroupOutcome)
def test_a_group_is_in_step_when_all_its_offsets_stand_on_the_target(outcome: GroupOutcome) -> None:
    found = [stands("billing", 0), stands("billing", 1, outcome), stands("other", 0)]
    committed = outcome in (GroupOutcome.EXACT, GroupOutcome.EARLIER, GroupOutcome.AHEAD)
    assert synced_at(found, [], 9.0, {"billing": 3.0}) == {"billing": 9.0 if committed else 3.0, "other": 9.0}
    assert ("billing" in synced_at(found, [], 9.0, {})) is committed, "it was never seen in step"


def test_topics_that_are_not_mirrored_do_not_count() -> None:
    elsewhere = replace(stands("billing", 1, GroupOutcome.UNTRANSLATED), reason=f"{NOT_MIRRORED}: why")
    assert synced_at([stands("billing", 0), elsewhere], [], 9.0, {}) == {"billing": 9.0}
    assert synced_at([elsewhere], [], 9.0, {"billing": 3.0}) == {}, "no offset of it could stand there"


def test_a_group_whose_offsets_the_source_does_not_give_is_not_in_step() -> None:
    assert synced_at([stands("billing", 0)], ["billing", "hidden"], 9.0, {"billing": 3.0}) == {"billing": 3.0}
    assert synced_at([], ["billing"], 9.0, {"billing": 3.0}) == {"billing": 3.0}, "none of them is given"


def test_a_group_that_is_gone_is_forgotten() -> None:
    assert synced_at([], [], 9.0, {"billing": 3.0}) == {}


@pytest.mark.parametrize(("took", "seconds"), [(0.0, 60.0), (10.0, 50.0), (40.0, 40.0), (60.0, 60.0), (600.0, 60.0)])
def test_after_a_slow_round_there_is_a_pause(took: float, seconds: float) -> None:
    assert pause(60.0, took) == seconds
