"""The claims that stand on a control topic, and which of them mean that a task was lost.

Which records they come from is the reader's business: control_reader.py.
"""

from __future__ import annotations

from collections import deque

from mirror.control.control_topics import Claim

REMEMBERED = 1_000  # most replaced tasks that are kept until the user of the reader removes them
HOLDERS = 100  # last tasks of a slice in a Spark epoch whose claims are known when they are read again


class KeptClaims:
    """Keeps the last claim of each slice, and the claims by which a task has replaced another one."""

    def __init__(self) -> None:
        self.tasks: dict[int, str] = {}  # by slice: the task that has claimed it last
        self.replaced: deque[Claim] = deque(maxlen=REMEMBERED)  # the user of the reader removes them
        self.recent: deque[str] = deque(maxlen=REMEMBERED)  # the tasks whose claims were read, the newest at the end
        self._holders: dict[int, tuple[str, deque[str]]] = {}  # by slice: the newest Spark epoch, and its last tasks

    def keep(self, claim: Claim) -> None:
        """Store a claim, and note a take-over if its Spark epoch has had another task for the slice.

        Spark starts one task for each slice of a Spark epoch. A second one replaces a task that was lost.
        """
        self.tasks[claim.slice] = claim.task
        self.recent.append(claim.task)
        spark_epoch, tasks = self._holders.get(claim.slice, ("", deque[str]()))
        if not claim.spark_epoch or claim.spark_epoch != spark_epoch:
            self._holders[claim.slice] = claim.spark_epoch, deque([claim.task], HOLDERS)
        elif claim.task not in tasks:  # a known claim is read again, from a recreated topic
            tasks.append(claim.task)
            self.replaced.append(claim)
