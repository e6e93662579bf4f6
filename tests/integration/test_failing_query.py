"""A query that fails says why, one that is stopped ends, and no error of Spark's overflows the stack of its thread.

Flows share no map that Spark writes to. Three queries that began together damaged it in about one of nine starts. Spark
then sent damaged tasks, which failed before any Python ran: no flow of the service copied anything.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from mirror.spark.receipts import SHOWN
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow


def test_queries_end_as_they_should_and_share_nothing() -> None:
    command = [sys.executable, "-m", "tests.harness.failing_query"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    error, attempts = found["failing_task"].split(" / ")
    assert "the task failed" in error and "x" * SHOWN not in error
    told = r"Spark has started tasks again after \d attempts that failed, e\.g\.: .*the task failed: x+"
    assert re.fullmatch(told, attempts)
    assert found["hanging_task"] == "in order"
    assert found["shared"] == 0
    assert found["crowded"] == {"waiting": [2], "waited": False, "second_runs": False}
    assert "StackOverflowError" not in done.stderr
