"""Finds the flows back: with active_active, they copy our target to our source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mirror.control.cluster_plans import ClusterPlans, control_topic
from mirror.control.control_topics import PLAN_KEY
from mirror.control.newest_plan import newest_plan
from mirror.control.statement import Statement
from mirror.groups.group_offsets import is_usable_group
from mirror.settings import Flow


@dataclass(frozen=True, slots=True)
class FlowBack:
    """A flow back, as far as its map needs it, and the topics that are read there: no other one is better for them."""

    flow: Flow
    topics: frozenset[str]


class FlowsBack:
    """Finds the flows back of a flow, by their plans on the source."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._plans = ClusterPlans(flow.source, flow.group, "", control_topic(flow.target.alias))

    def close(self) -> None:
        """End the client."""
        self._plans.close()

    def find(self) -> list[FlowBack]:
        """The flows back, the best one first. Raises ClusterAway, ForeignPlan.

        Several may share the topics: each has another alias for our target. A topic may also be in the plan of a flow
        that has ended, in whose place another one copies it with another group. The topic is read where the plan does
        not say stop, or else where it is the newest one.
        """
        ours, _ = newest_plan(self._flow)
        if ours is None or len(ours.clusters) != 2:
            return []
        self._plans.read()
        found: list[FlowBack] = []
        taken: frozenset[str] = frozenset()
        for alias, plan in self._best_first(ours.clusters[::-1]):
            topics = frozenset(name for name, remote in plan.remotes.items() if remote == name) - taken
            if topics or not found:
                source = replace(self._flow.target, alias=alias)
                flow = replace(self._flow, source=source, target=self._flow.source, group=plan.group)
                found.append(FlowBack(flow, topics))
                taken |= topics
        return found

    def _best_first(self, clusters: tuple[str, ...]) -> Iterator[tuple[str, Statement]]:
        """The plans of flows between these clusters, each with its alias for our target."""
        topics = self._plans.control_topics
        plans = {alias: topic.statements[PLAN_KEY] for alias, topic in topics.items() if PLAN_KEY in topic.statements}
        # `written` is when the plan was written, or a living flow has given its last sign of life.
        for alias in sorted(plans, key=lambda alias: (plans[alias].stop, -topics[alias].written, alias)):
            if is_usable_group(plans[alias].group) and plans[alias].clusters == clusters:
                yield alias, plans[alias]
