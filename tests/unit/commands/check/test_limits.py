"""What `mirror check` reckons with for topics that are still to be created."""

from __future__ import annotations

import pytest

from mirror.commands.check.limits import new_limit
from mirror.naming import matcher
from mirror.topics.config_rules import MAX_BYTES, Rules

OURS, THEIRS, LARGE = 2_000_000, 3_000_000, 8_000_000  # bytes; each larger than a batch of mirror's


@pytest.mark.parametrize(
    ("own", "from_target", "from_source"),
    [
        (None, THEIRS, OURS),
        (str(LARGE), LARGE, LARGE),
        ("1000", THEIRS, THEIRS),  # not copied: mirror's own batches would be refused
        ("none", THEIRS, THEIRS),
    ],
)
def test_a_new_topic_has_the_limit_that_the_flow_gives_it(own: str | None, from_target: int, from_source: int) -> None:
    assert new_limit(own, OURS, THEIRS, Rules(matcher([]), "target")) == from_target
    assert new_limit(own, OURS, THEIRS, Rules(matcher([]), "source")) == from_source


def test_a_key_that_is_left_out_has_the_targets_limit() -> None:
    assert new_limit(str(LARGE), OURS, THEIRS, Rules(matcher([MAX_BYTES]), "source")) == THEIRS
