"""What a flow's canary tells: when the last one has arrived, and how long it took. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LATE = 180.0  # seconds, as in the alert: three of the longest intervals


@dataclass(frozen=True, slots=True)
class CanaryStatus:
    """What the flow leader knows of the canaries that it writes. `at` is in seconds since the Unix epoch."""

    topic: str
    at: float  # when the last one that arrived was written; before the first one: when the flow leader began with them
    seconds: float | None  # from writing it until it was read on the target; None before the first one
    problem: str  # why none can be written or read now; "" if that is not known, or nothing is wrong

    def is_late(self, now: float) -> bool:
        """True if the last one that arrived is too old."""
        return now - self.at > LATE
