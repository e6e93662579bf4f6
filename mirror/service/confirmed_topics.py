"""Notices that topics or partitions of the plan are gone, and believes it only when two looks agree. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.model import Topic


class ConfirmedTopics:
    """The topics for the next plan, look by look.

    A broker that has just started, or is cut off from the controller, may not know a topic, or not all of its
    partitions. If the plan lacked these for a moment, their copying would stop, and later begin anew.
    """

    def __init__(self) -> None:
        self.doubtful = False  # True if the last look has missed something that the next one has to miss, too
        self._missed: dict[str, int] = {}  # by topic of the plan: how many partitions the last look found instead

    def look(self, found: Mapping[str, Topic], before: Mapping[str, Topic]) -> dict[str, Topic]:
        """The topics that count after a look that has `found` these.

        `before` are those of the newest plan that the flow still wants.
        """
        missed = {name: 0 for name in before.keys() - found.keys()}
        for name in before.keys() & found.keys():
            if _same(found[name], before[name]) and found[name].partitions < before[name].partitions:
                missed[name] = found[name].partitions
        sure = {name for name, count in missed.items() if self._missed.get(name) == count}
        self._missed, self.doubtful = missed, missed.keys() > sure
        return {**found, **{name: before[name] for name in missed.keys() - sure}}


def _same(one: Topic, other: Topic) -> bool:
    """False if either topic was deleted and created again, or is copied elsewhere."""
    return (one.topic_id, one.remote, one.remote_id) == (other.topic_id, other.remote, other.remote_id)
