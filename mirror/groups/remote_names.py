"""The names of a flow's remote topics for code that follows copied records: from the plan, or else from the policy."""

from __future__ import annotations

from mirror.control.newest_plan import newest_plan
from mirror.errors import FlowError
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow


class RemoteNames:
    """Where the copies of a flow's topics are.

    A policy of the user's own may have been changed since a topic was first copied. The copy then keeps the name that
    the plan has, and so do the topics of this object.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._policy = ReplicationPolicy.of(flow)
        self._planned: dict[str, str] | None = None

    def refresh(self) -> None:
        """Read the plan, but only once: the names that a plan has do not change. Raises ClusterAway, ForeignPlan."""
        if self._planned is None and self._policy.asks is not None:
            plan, _ = newest_plan(self._flow)
            self._planned = {name: topic.remote for name, topic in plan.known.items()} if plan else None

    def of(self, topic: str) -> str:
        """The remote topic. Raises FlowError if nobody names one."""
        planned = self._planned.get(topic) if self._planned and self._policy.is_asked(topic) else None
        return planned or self._policy.remote_topic(topic)

    def known(self, topic: str) -> str | None:
        """The remote topic; None if nobody names one."""
        try:
            return self.of(topic)
        except FlowError:
            return None
