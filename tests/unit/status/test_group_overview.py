"""The consumer groups of a flow as plain data."""

from __future__ import annotations

import gc

from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_offsets import Committed
from mirror.groups.group_rounds import Round
from mirror.groups.group_sync import GroupOffset
from mirror.model import Partition
from mirror.status import group_overview
from mirror.status.group_overview import GROUP_OUTCOMES, REASONS, groups_view


def stands(group: str, number: int, outcome: GroupOutcome = GroupOutcome.EXACT, lag: int | None = 5) -> GroupOffset:
    """How a group stands in a partition of `orders`."""
    reason = "" if outcome is GroupOutcome.EXACT else f"it is {outcome}"
    return GroupOffset(group, Partition("orders", number), Committed(10, ""), lag, 7, 7, outcome, reason)


def test_each_group_has_its_lag_its_outcomes_and_some_reasons() -> None:
    ahead = [stands("billing", number, GroupOutcome.AHEAD) for number in range(1, REASONS + 2)]
    view = groups_view(Round(1.0, [stands("shipping", 0, lag=None), stands("billing", 0), *ahead], True))
    assert (view.at, view.synced) == (1.0, True)
    billing, shipping = view.groups
    assert (billing.group, billing.lag) == ("billing", 5 * (REASONS + 2))
    assert billing.partitions_by_outcome == dict.fromkeys(GROUP_OUTCOMES, 0) | {"exact": 1, "ahead": REASONS + 1}
    assert billing.reasons == [f"orders-{number}: it is ahead" for number in range(1, REASONS + 1)]
    assert (shipping.group, shipping.lag, shipping.reasons) == ("shipping", None, [])


def test_groups_that_are_no_consumer_groups_are_named_beside_the_others() -> None:
    """They have no partitions, so the metrics know nothing of them."""
    view = groups_view(Round(1.0, [stands("billing", 0)], True, left_out={"z": "another type", "a": "a share group"}))
    assert [each.group for each in view.groups] == ["billing"]
    assert list(view.left_out.items()) == [("a", "a share group"), ("z", "another type")]


def test_the_lag_of_a_group_is_known_only_with_that_of_all_partitions() -> None:
    view = groups_view(Round(1.0, [stands("billing", 0), stands("billing", 1, lag=None)], False))
    assert view.groups[0].lag is None and not view.synced


def test_a_group_whose_offsets_the_source_does_not_give_is_named() -> None:
    refused = {"hidden": "not authorized", "billing": "of some partitions only"}
    view = groups_view(Round(1.0, [stands("billing", 0)], True, refused))
    billing, hidden = view.groups
    assert (hidden.group, hidden.lag, hidden.reasons) == ("hidden", None, ["not authorized"])
    assert hidden.partitions_by_outcome == dict.fromkeys(GROUP_OUTCOMES, 0) | {"denied": 1}
    assert (
        billing.lag is None and billing.partitions_by_outcome["exact"] == billing.partitions_by_outcome["denied"] == 1
    )


def test_the_view_is_made_once_for_each_round() -> None:
    """Tens of thousands of groups take a while, and each page and each scrape needs them."""
    first, second = (Round(1.0, [stands("billing", 0)], True) for _ in range(2))
    assert groups_view(first) is groups_view(first)
    assert groups_view(first) is not groups_view(second), "the same time, but of another flow"
    known = len(group_overview._views)
    del first, second
    gc.collect()
    assert len(group_overview._views) == known - 2, "an old round is not kept"
