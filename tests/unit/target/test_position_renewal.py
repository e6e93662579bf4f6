"""How often a position is committed again, so that the target does not forget it."""

from __future__ import annotations

import pytest

from mirror.control.plan import RENEW_INTERVAL
from mirror.target.position_renewal import interval_of


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [
        (10_080, 60_480),  # Kafka's default of seven days: ten times in it
        (1, 6),
        (525_600, RENEW_INTERVAL),  # a year: no longer than a day
    ],
)
def test_a_tenth_of_the_targets_retention_and_a_day_at_most(minutes: float, seconds: float) -> None:
    assert interval_of(minutes) == seconds
