"""The changes of a new plan that an operator may not have meant: topics that left it, other remote topics. Pure."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from mirror.control.plan import Plan
from mirror.model import Topic
from mirror.target import timestamps

DECIDE = "nothing is copied to it until somebody decides with mirror resume"
GONE = "it was deleted, is left out by the configuration, or mirror may not see it (Describe)"


class PlanChange(NamedTuple):
    """One line of the log, and the event for the status page if it is worth one."""

    level: int
    message: str
    fields: Mapping[str, str]
    event: str | None = None


def plan_changes(
    plan: Plan | None, topics: Mapping[str, Topic], replacing: Collection[str], target: str
) -> Iterator[PlanChange]:
    """The differences between the last plan and `topics`, which are those of the next plan.

    `replacing` has the remote topics that replace timestamps, `target` is the target's alias.
    """
    for name, before in sorted(plan.topics.items()) if plan else ():
        where = {"topic": name}
        now = topics.get(name)
        if now is None:
            reason = timestamps.REASON if before.remote in replacing else GONE
            event = f"{name} is not mirrored any more: {reason}"
            yield PlanChange(logging.WARNING, "topic is not mirrored any more", {**where, "reason": reason}, event)
        elif now.remote != before.remote:
            fields = {**where, "before": before.remote, "now": now.remote}
            yield PlanChange(logging.WARNING, "topic is copied to another remote topic now", fields)
        elif now.remote_lost and not before.remote_lost:
            message = "the remote topic was deleted, nothing is copied until somebody decides"
            yield PlanChange(logging.ERROR, message, where, f"{before.remote} was deleted on {target}: {DECIDE}")
        elif before.remote_id not in ("", now.remote_id):
            fields = {**where, "before": before.remote_id, "now": now.remote_id}
            message = "the remote topic was deleted and created again"
            yield PlanChange(logging.WARNING, message, fields, f"{before.remote} was deleted and created again")
