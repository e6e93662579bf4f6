"""Whether partitions are still this task's, which a copier has to know after its producer was fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set

from mirror.model import Partition
from mirror.task.followed_plan import PlanView
from mirror.wire.gathered import Gathered


class Ownership(Gathered[Partition, bool]):
    """Answers by partition, for one event loop. All that ask at about the same time share one look.

    The look begins after the question. It blocks, so it has a helper thread.
    """

    def __init__(self, plan: PlanView) -> None:
        async def look(partitions: Set[Partition]) -> Mapping[Partition, bool]:
            ours = await asyncio.to_thread(plan.still_ours, frozenset(partitions))
            return {each: each in ours for each in partitions}

        super().__init__(look)
