"""What the newest plan says to one task: which partitions it has, and with which settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from mirror.control.control_reader import ControlReader
from mirror.control.decisions import Decision
from mirror.control.orders import Orders, is_paused
from mirror.control.plan import RENEW_INTERVAL, Plan
from mirror.control.task_settings import TaskSettings
from mirror.control.throttle_shares import Share, shares, throttles
from mirror.errors import MirrorError
from mirror.model import BATCH_BYTES, Partition, Topic
from mirror.settings import Flow


class Replaced(MirrorError):
    """A newer task has claimed the slice. This one ends."""


class SlicePlan:
    """One task's view of the plan. The service `service_id` has started the task.

    The task has slice `index` of a plan with `count` slices and the number `restarts`.
    """

    def __init__(
        self, flow: Flow, control: ControlReader, service_id: str, index: int, count: int, restarts: int, task_id: str
    ) -> None:
        self._flow = flow
        self._changed: tuple[TaskSettings | None, Flow] = None, flow  # settings of a plan, and the flow with them
        self._shares: tuple[Plan | None, Mapping[str, Share]] = None, {}  # a plan, and our shares in it
        self._clusters: tuple[str, ...] = ()  # of the newest plan that has their ids
        self._control = control
        self.service_id = service_id
        self._index = index
        self._count = count
        self._restarts = restarts
        self._task_id = task_id

    def wanted(self) -> Mapping[Partition, Topic] | None:
        """The partitions to copy now; None once the task has to finish. Raises Replaced."""
        if self._control.claims.get(self._index) != self._task_id:
            raise Replaced(f"flow {self._flow.name}: slice {self._index} has a newer task")
        plan = self._control.plan
        if plan is None or not self.is_current:
            return None
        return {partition: plan.topics[partition.topic] for partition in plan.slices[self._index]}

    @property
    def is_current(self) -> bool:
        """True if the newest plan still wants this Spark epoch."""
        plan = self._control.plan
        return (
            plan is not None
            and plan.service_id == self.service_id
            and not plan.stop
            and len(plan.slices) == self._count
            and plan.restarts == self._restarts
        )

    @property
    def settings(self) -> TaskSettings | None:
        """The settings that the newest plan carries for tasks; None if an older mirror has written it."""
        plan = self._control.plan
        return plan.task_settings if plan else None

    @property
    def flow(self) -> Flow:
        """The flow's settings as they are now. Any thread may ask."""
        settings, (before, flow) = self.settings, self._changed
        if settings is not before and settings is not None:
            flow = settings.applied(self._flow)
            self._changed = settings, flow
        return flow

    @property
    def shares(self) -> Mapping[str, Share]:
        """Our shares of the throttles, by name; another object after every change. Only the plan follower asks."""
        plan, (before, found) = self._control.plan, self._shares
        if plan is not before and plan is not None and len(plan.slices) == self._count:
            limits = throttles(self.flow.throttle, self.flow.topic_settings)
            now = shares(limits, plan.slices, plan.throttle_parts, self._index)
            found = found if now == found else now
            self._shares = plan, found
        return found

    @property
    def orders(self) -> Orders:
        """What people have ordered; another object after every change."""
        return self._control.orders

    @property
    def decisions(self) -> Mapping[Partition, Decision]:
        """What people have decided about incidents; another object after every change."""
        return self._control.decisions

    @property
    def renew_interval(self) -> float:
        """Seconds between two commits of a position that stays the same."""
        plan = self._control.plan
        return plan.renew_interval if plan else RENEW_INTERVAL

    def largest(self, topic: str) -> int:
        """Bytes of the largest batch that the copy of a source topic takes. Any thread may ask."""
        plan = self._control.plan
        return plan.topics[topic].largest if plan and topic in plan.topics else BATCH_BYTES

    def is_paused(self, partition: Partition) -> bool:
        """True if a person has ordered not to copy the partition now."""
        return is_paused(self._control.orders, partition)

    def still_ours(self, partitions: Collection[Partition]) -> Set[Partition]:
        """Read the control topic to its end. Those that the newest plan gives us; all if it is unreadable."""
        try:
            self._control.read_to_end()
            wanted = self.wanted()
        except Replaced:
            return frozenset()
        except Exception:  # whatever it is, the fence decides at the next try
            return frozenset(partitions)
        return frozenset(partitions).intersection(wanted or ())

    @property
    def clusters(self) -> tuple[str, ...]:
        """The ids of source and target, of the newest plan that has them; empty if none had."""
        plan = self._control.plan
        if plan is not None and plan.clusters:
            self._clusters = plan.clusters
        return self._clusters

    def decision(self, partition: Partition) -> Decision | None:
        """The last decision about an incident of the partition; None if there is none."""
        return self.decisions.get(partition)

    @property
    def size(self) -> int:
        """How many partitions the newest plan has."""
        plan = self._control.plan
        return sum(map(len, plan.slices)) if plan else 0

    @property
    def generation(self) -> int:
        """The generation of the newest plan; 0 if there is no plan."""
        plan = self._control.plan
        return plan.generation if plan else 0
