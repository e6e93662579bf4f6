"""Which versions are released: those that the changelog gives a date."""

from __future__ import annotations

import re
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def is_released(version: str) -> bool:
    """True if the changelog has a date for this version."""
    return re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", CHANGELOG.read_text(), re.M) is not None
