"""What a report says of its partition by now: one answer for the service, its page, `mirror status` and `mirror pause`.

A report is as old as its task's silence, so its age decides with it. Pure.
"""

from __future__ import annotations

from mirror.control.reports import Report
from mirror.timing import SILENCE

UNASSIGNED = "unassigned"  # the state of a partition that no task reports
RELEASED = "released"  # the last report of a task that has let go of the partition


def is_silent(age: float | None) -> bool:
    """True if the last report came more than SILENCE seconds ago, or never (None)."""
    return age is None or age > SILENCE


def observed_state(report: Report, age: float, service_id: str) -> str:
    """The partition's state: the reported one, or "unassigned" if its task has let go, is silent or is of another run.

    `service_id` names the service whose plan is in force: tasks of an older service have lost the partition.
    """
    gone = report.state == RELEASED or report.service_id != service_id or is_silent(age)
    return UNASSIGNED if gone else report.state


def lag_seconds(report: Report, now: float) -> float | None:
    """Seconds that the next record has waited; 0 without lag, None if it is not known. `now` is epoch time."""
    if report.behind_since < 0:
        return None
    return max(0.0, now - report.behind_since) if report.behind_since else 0.0


def stuck_seconds(report: Report, now: float) -> float:
    """Seconds that the source's last stable offset has not moved below the high watermark; 0 if it moves."""
    return max(0.0, now - report.stuck_since) if report.stuck_since > 0 else 0.0


def position(report: Report) -> int | None:
    """The next upstream offset; None before it is known."""
    return report.position if report.position >= 0 else None


def lag(report: Report) -> int | None:
    """Records up to the source's last stable offset; None before it is known."""
    return report.lag if report.lag >= 0 else None
