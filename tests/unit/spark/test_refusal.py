"""What is told of a call that Spark refuses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from mirror.spark.failure_reason import refusal


@dataclass
class JavaException:
    """What py4j makes of one; its text comes from the JVM."""

    text: str
    _target_id: str = "o1"

    def __str__(self) -> str:
        if not self.text:
            raise Py4JNetworkError("the JVM is gone")
        return self.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("org.apache.spark.SparkException: no such file\n\tat org.apache.spark.X(X.scala:1)", "no such file"),
        (
            "org.apache.spark.SparkException: Traceback (most recent call last):\n  File x\n"
            "ModuleNotFoundError: No module named 'mirror'\n\n\tat org.apache.spark.X(X.scala:1)",
            "ModuleNotFoundError: No module named 'mirror'",
        ),
        ("", "its JVM is gone, start the service again"),
    ],
)
def test_the_line_that_tells_most(text: str, told: str) -> None:
    assert refusal(Py4JJavaError("an error occurred", JavaException(text))).endswith(told)
