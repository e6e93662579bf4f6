"""acks=1 in the middle of a transaction, as docs/decisions/0006 has it, when a leader dies with that middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.chaos.pipelining.rounds import PROPERTIES, Round

pytestmark = pytest.mark.slow


def test_a_lost_middle_never_commits(tmp_path: Path) -> None:
    """A leader that knows nothing of the producer does not commit it either. Unsafe ways lose records, as expected."""
    with LocalCluster("acks", tmp_path, 3, PROPERTIES) as cluster:
        played = Round(cluster)
        played.play()
        assert played.wrong() == []
