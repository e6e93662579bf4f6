"""What is done about steps that hang."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from mirror.errors import TaskHung
from mirror.model import Partition
from mirror.task.copier import RecordCopier
from mirror.task.step_watch import HUNG_TIMEOUTS, StepWatch
from tests.unit.test_naming import flow


def test_a_transform_that_hangs_does_not_end_the_task(caplog: pytest.LogCaptureFixture) -> None:
    """Its partition alone waits for it. A hanging transaction is another thing."""
    hung = HUNG_TIMEOUTS * flow().transaction_timeout + 1
    copier = Mock(
        spec=RecordCopier, partition=Partition("t", 3), since_progress=hung, hang_reason="it hangs", stack="f < g"
    )
    slow: list[int] = []
    threads: Any = SimpleNamespace(ensure_threads=slow.append)
    steps = StepWatch(flow(), threads)
    for _ in range(3):
        steps.check([copier])
    assert slow == [1, 1, 1], "it gets a thread more"
    (said,) = [record for record in caplog.records if record.message == "a transform hangs"]
    assert (vars(said)["reason"], vars(said)["stack"], vars(said)["partition"]) == ("it hangs", "f < g", 3)
    copier.hang_reason = ""
    with pytest.raises(TaskHung):
        steps.check([copier])
