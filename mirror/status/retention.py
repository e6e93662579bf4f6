"""How long the source keeps what a flow has not copied yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mirror.control.reports import Report


@dataclass(frozen=True, slots=True)
class Expiry:
    """How long the source keeps the next record of a partition."""

    topic: str
    partition: int
    seconds: float  # until it may delete the record; negative if it might have done so already
    used: float  # the part of the topic's retention for which the record has waited


@dataclass(frozen=True, slots=True)
class Retention:
    """The partitions of a flow that retention overtakes next. Topics have different retentions, so they may differ."""

    first: Expiry  # with the fewest seconds left
    worst: Expiry  # with the largest part used


def retention(reports: Iterable[Report], kept: Mapping[str, float], now: float) -> Retention | None:
    """Whom retention overtakes next; None if no partition has lag, a retention and a known next record.

    `kept` has the seconds for which the source keeps the records of each topic, of those that it deletes by time. `now`
    is epoch time. A broker deletes whole segments, so it may delete later, but by time not earlier.
    """
    found = [
        Expiry(*report.partition, kept[topic] - waited, waited / kept[topic])
        for report in reports
        if report.next_timestamp > 0 and (topic := report.partition.topic) in kept
        for waited in (now - report.next_timestamp,)
    ]
    if not found:
        return None
    return Retention(min(found, key=lambda each: each.seconds), max(found, key=lambda each: each.used))
