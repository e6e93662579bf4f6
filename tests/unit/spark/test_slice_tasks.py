"""The end of the process in which Spark plans Spark epochs."""

from __future__ import annotations

import subprocess
import sys

PLANNER = """
from mirror.service_settings import Log
from mirror.spark.slice_tasks import SliceReader

reader = SliceReader(None, "leader", Log("info", "json"))
{stop}
raise BrokenPipeError("Spark has closed the connection")
"""


def said(stop: str) -> str:
    code = PLANNER.format(stop=stop)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def test_a_planner_ends_without_a_word_once_it_was_stopped() -> None:
    assert "BrokenPipeError" in said("")
    assert said("reader.stop()") == ""
