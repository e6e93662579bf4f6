"""With active_active: the flow back, whose offset map says what a group has read of the target's own records."""

from __future__ import annotations

from dataclasses import replace

from mirror.control.cluster_plans import ClusterPlans, control_topic
from mirror.control.control_topics import PLAN_KEY
from mirror.control.newest_plan import newest_plan
from mirror.groups.translation import End, Unknown, is_behind_all, read_before
from mirror.groups.translator import Translation, Translator
from mirror.model import Partition
from mirror.settings import Flow

EARLIER = "an earlier offset stands for it, so that no record that was written on the target is passed over"
NO_WAY_BACK = "not exact: what the group has read of the target's own records is not known"


class FlowBack:
    """Finds the flow that copies our target to our source, by its plan on the source."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._plans = ClusterPlans(flow.source, flow.group, "", control_topic(flow.target.alias))

    def find(self) -> Flow | None:
        """What has to be known of it to read its map; None if there is none. Raises ClusterAway, ForeignPlan."""
        ours, _ = newest_plan(self._flow)
        if ours is None or len(ours.clusters) != 2:
            return None
        self._plans.read()
        for alias, topic in sorted(self._plans.control_topics.items()):
            plan = topic.statements.get(PLAN_KEY)
            if plan is not None and plan.group and plan.clusters == ours.clusters[::-1]:
                source = replace(self._flow.target, alias=alias)
                return replace(self._flow, source=source, target=self._flow.source, group=plan.group)
        return None


class SharedTranslator:
    """Translates the offsets of groups that read a topic to which programs write on both clusters.

    Neither side's records have the same order on the other one. So the translated offset is the smaller one of two:
    that of the source's next record, and that of the target's first own record which is not before the group's offset
    on the source. A group that goes on there reads some records again, and passes over none.
    """

    def __init__(self, flow: Flow) -> None:
        self._there = Translator(flow)
        self._finder = FlowBack(flow)
        self._flow_back: Flow | None = None
        self._back: Translator | None = None
        self._unmoved: set[Partition] = set()  # those to which nothing was copied while the log's end was read

    def close(self) -> None:
        """End the clients."""
        self._there.close()
        if self._back is not None:
            self._back.close()

    def refresh(self, partitions: list[Partition]) -> None:
        """As Translator's, for both flows."""
        found = self._finder.find()
        if found != self._flow_back:
            if self._back is not None:
                self._back.close()
            self._flow_back, self._back = found, Translator(found) if found else None
        self._there.refresh(partitions)
        self._unmoved = self._there.unmoved(partitions)
        if self._back is not None:
            self._back.refresh(partitions)

    def to_downstream(self, partition: Partition, upstream: int) -> Translation:
        """Where on the target a group goes on that would read `upstream` next on the source, and passes over nothing.

        If that is an earlier offset than the one of the source's next record, `reason` says so.
        """
        return self._earlier(self._of_source(partition, upstream))

    def end(self, partition: Partition) -> Translation:
        """The same for a group that has read all that is copied."""
        position = self._there.seen(partition).position
        return self.to_downstream(partition, position.offset if position is not None else 0)

    def remote(self, topic: str) -> str:
        """As Translator's."""
        return self._there.remote(topic)

    def remote_id(self, partition: Partition) -> str:
        """As Translator's."""
        return self._there.remote_id(partition)

    def _of_source(self, partition: Partition, upstream: int) -> Translation:
        """Where the source's next record is. If it is not copied yet, after all that the target has now.

        That is certain only if nothing was copied while the target's log end was read. Otherwise it is where the last
        copied record ends.
        """
        found, seen = self._there.to_downstream(partition, upstream), self._there.seen(partition)
        position = seen.position
        if partition not in self._unmoved or position is None or seen.log_end is None or upstream > position.offset:
            return found
        end = End(position.offset, position.map_end)
        if not is_behind_all(self._there.entries(partition, position), upstream, end):
            return found
        return replace(found, translated=seen.log_end, reason="")

    def _earlier(self, found: Translation) -> Translation:
        if found.translated is None:
            return found
        read = self._read_before(found.partition, found.offset) if found.remote == found.partition.topic else None
        if not isinstance(read, int):
            why = NO_WAY_BACK if read is None else f"{NO_WAY_BACK}: {read.value}"
            return replace(found, translated=None, reason=why)
        kept = max(read, self._there.seen(found.partition).log_start or 0)
        return replace(found, translated=min(found.translated, kept), reason=EARLIER if kept < found.translated else "")

    def _read_before(self, partition: Partition, offset: int) -> int | Unknown | None:
        """Each own record of the target before the answer is before `offset` on the source. None: no flow goes back."""
        if self._back is None:
            return None
        position = self._back.seen(partition).position
        if position is None:
            return Unknown.NOT_COPIED
        return read_before(self._back.entries(partition, position), offset, End(position.offset, position.map_end))
