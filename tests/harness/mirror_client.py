"""MirrorMaker's own Java client (connect-mirror-client), asked of a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mirror.demo.jvm import SHORT_LIVED
from mirror.demo.kafka_jars import MIRROR_MAKER, kafka_jars
from mirror.spark.java import java
from tests.harness.programs import skip
from tests.harness.waiting import PATIENCE

PROBE = Path(__file__).parent / "MirrorClientProbe.java"

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What the client is asked of one source: see MirrorClientProbe.java."""

    properties: Mapping[str, str]
    source: str  # alias
    groups: Sequence[str] = ()
    aliases: Sequence[str] = ()


def require() -> None:
    """Skip the test where Java has no compiler."""
    modules = subprocess.run([java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler@" not in modules:
        skip("Java has no compiler: install a JDK (Debian/Ubuntu: apt-get install openjdk-17-jdk-headless)", False)


def ask(*questions: Question) -> list[Answer]:
    """The answers to all questions, from one JVM."""
    # Without a logging back end, so that nothing but the answer is on stdout.
    command = [java(), *SHORT_LIVED, "-cp", f"{kafka_jars(MIRROR_MAKER)}/*", str(PROBE)]
    asked = json.dumps([asdict(question) for question in questions])
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    answers: list[Answer] = json.loads(ended.stdout)
    return answers
