"""One-shot commands of `mirror`, as people and programs start them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness.installed import HERE, Ended
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE


def mirror(*arguments: str | Path | int, timeout: float = PATIENCE) -> Ended:
    """Run a command to its end."""
    return HERE.ended(*arguments, timeout=timeout)


def answer(*arguments: str | Path | int, code: int = 0) -> Any:
    """What a command prints with --json, after it ended with this exit code."""
    ended = mirror(*arguments, "--json")
    assert ended.returncode == code and ended.stdout, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def decide(service: Service, *how: str | Path | int) -> dict[str, Any]:
    """`mirror resume` with a decision, once somebody waits for it: it is logged a second before it is reported."""
    said: dict[str, Any] = {}

    def decided() -> bool:
        said.update(answer("resume", "-c", service.file, *how))
        return bool(said["decided"])

    service.wait_for("a partition that waits for the decision", decided)
    return said
