"""One-shot commands of `mirror`, as people and programs start them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness.installed import HERE, Ended


def mirror(*arguments: str | Path | int, timeout: float = 120.0) -> Ended:
    """Run a command to its end."""
    return HERE.ended(*arguments, timeout=timeout)


def answer(*arguments: str | Path | int, code: int = 0) -> Any:
    """What a command prints with --json, after it ended with this exit code."""
    ended = mirror(*arguments, "--json")
    assert ended.returncode == code and ended.stdout, ended.stdout + ended.stderr
    return json.loads(ended.stdout)
