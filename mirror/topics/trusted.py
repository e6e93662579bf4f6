"""Which topics may be kept in step: those of which nobody doubts that the remote topic is their copy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mirror.control.reports import Report
from mirror.model import Topic

# Blocked partitions of these kinds wait for a decision about whether the remote topic is a copy of this source topic.
IN_DOUBT = frozenset({"recreated", "remote_topic", "unknown_records"})


@dataclass(frozen=True, slots=True)
class Trusted:
    """Topics whose remote topics nobody doubts."""

    topics: Mapping[str, Topic]
    unproven: frozenset[str]  # those of which nothing was copied yet: somebody else's records may be there


def trusted_topics(topics: Mapping[str, Topic], reports: Iterable[Report]) -> Trusted:
    """Those of the plan's `topics` that tasks have reported, and whose positions are in this very topic.

    A source topic that was deleted and created again is another one: until its copying goes on, the remote topic has
    the records of the old one, and its configuration, such as retention, is that of the old one, too.
    """
    found, doubtful, copied = set(), set(), set()
    for report in reports:
        name = report.partition.topic
        topic = topics.get(name)
        if topic is None:
            continue
        found.add(name)
        if report.topic_id:
            copied.add(name)
        ours = report.topic_id in ("", topic.topic_id) and report.remote_id in ("", topic.remote_id)
        if not ours or (report.incident is not None and report.incident.kind in IN_DOUBT):
            doubtful.add(name)
    trusted = {name: topics[name] for name in sorted(found - doubtful) if not topics[name].remote_lost}
    return Trusted(trusted, frozenset(trusted.keys() - copied))
