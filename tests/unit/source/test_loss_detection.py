"""What people are told of a loss: the range, and what they can do."""

from __future__ import annotations

from typing import Literal

import pytest

from mirror.source.loss_detection import Loss


@pytest.mark.parametrize("reason", ["deleted", "truncated", "recreated", "corrupt"])
def test_each_loss_says_what_a_person_can_do(
    reason: Literal["deleted", "truncated", "recreated", "corrupt"],
) -> None:
    loss = Loss(reason, 10, 5, "a checksum")
    assert "mirror resume --skip-lost" in loss.remedy and loss.remedy not in loss.what
    assert ("have the source mended" in loss.remedy) == (reason == "corrupt"), "nothing else can come back"
