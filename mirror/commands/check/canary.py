"""Checks whether a flow's canary may be written and read on the source, and shows the command that allows it."""

from __future__ import annotations

from collections.abc import Iterator

from mirror.commands.check.findings import Finding
from mirror.commands.check.inspection import Description, Inspector
from mirror.commands.check.permissions import COPY, commands, for_canary, words
from mirror.settings import Flow

WHAT = "canary"


def canary(flow: Flow, source: Inspector, description: Description) -> Iterator[Finding]:
    """Check the permissions on the canary's topic of the source. Raises ClusterAway.

    On the target it needs no more than other remote topics. Without these permissions the flow copies all the same.
    """
    if not flow.canary.enabled:
        return
    topic = flow.canary_topic
    exists = topic in source.partitions()
    lacking = COPY - source.topic_operations([topic]).get(topic, frozenset()) if exists else frozenset()
    if lacking:
        yield Finding(
            WHAT, "WARNING", f"{words(lacking)} is not allowed on {topic} of {flow.source.alias}", command(flow)
        )
    elif exists:
        yield Finding(WHAT, "OK", f"{words(COPY)} on {topic} of {flow.source.alias}")
    elif not source.has_authorizer():
        yield Finding(WHAT, "OK", f"mirror creates {topic} on {flow.source.alias}, which has no authorizer")
    else:
        may = "is" if "CREATE" in description.operations else "is not"
        said = f"{flow.source.alias} shows no {topic}; Create {may} allowed on the cluster, the rest is not known"
        yield Finding(WHAT, "WARNING", said, f"make sure that this is allowed: {command(flow)}")


def command(flow: Flow) -> str:
    """The command that allows all that the canary needs on the source."""
    (found,) = commands(for_canary(flow))
    return found
