"""What makes a test of random faults repeatable."""

from __future__ import annotations

import os
import random


def seed() -> int:
    """MIRROR_SEED, or a random one, which is printed."""
    chosen = int(os.environ.get("MIRROR_SEED") or random.randrange(1_000_000))
    print(f"MIRROR_SEED={chosen} repeats this")
    return chosen
