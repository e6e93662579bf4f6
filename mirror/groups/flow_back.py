"""Translates offsets with active_active, where programs write to the same topic on both clusters.

Another flow copies our target to our source: the flow back. Its offset map says which of the target's own records a
group has read on the source.
"""

from __future__ import annotations

from dataclasses import replace

from mirror.control.cluster_plans import ClusterPlans, control_topic
from mirror.control.control_topics import PLAN_KEY
from mirror.control.newest_plan import newest_plan
from mirror.groups.group_offsets import is_usable_group
from mirror.groups.translated import Translation
from mirror.groups.translation import End, Unknown, is_after_all, read_before
from mirror.groups.translator import Translator
from mirror.model import Partition
from mirror.settings import Flow

EARLIER = "an earlier offset stands for it, so that no record that was written on the target is passed over"
NO_WAY_BACK = "not exact: what the group has read of the target's own records is not known"


class FlowBack:
    """Finds the flow that copies our target to our source, by its plan on the source."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._plans = ClusterPlans(flow.source, flow.group, "", control_topic(flow.target.alias))

    def close(self) -> None:
        """End the client."""
        self._plans.close()

    def find_flow(self) -> Flow | None:
        """The flow back, as far as its map needs it. None if there is none. Raises ClusterAway, ForeignPlan."""
        ours, _ = newest_plan(self._flow)
        if ours is None or len(ours.clusters) != 2:
            return None
        self._plans.read()
        for alias, topic in sorted(self._plans.control_topics.items()):
            plan = topic.statements.get(PLAN_KEY)
            if plan is not None and is_usable_group(plan.group) and plan.clusters == ours.clusters[::-1]:
                source = replace(self._flow.target, alias=alias)
                return replace(self._flow, source=source, target=self._flow.source, group=plan.group)
        return None


class SharedTranslator:
    """Translates the offsets of groups that read a topic to which programs write on both clusters.

    The two logs have the same records in different orders. The group must pass over neither a record of the source nor
    one of the target. So two offsets on the target are found: that of the source's next record, and that of the first
    record which was written on the target and which the group has not read on the source. The smaller one counts. A
    group that goes on there reads some records again, and passes over none.
    """

    def __init__(self, flow: Flow) -> None:
        self._there = Translator(flow)
        self._finder = FlowBack(flow)
        self._flow_back: Flow | None = None
        self._back: Translator | None = None
        self._unmoved: set[Partition] = set()  # partitions to which nothing was copied while the log's end was read

    def close(self) -> None:
        """End the clients."""
        self._finder.close()
        self._there.close()
        if self._back is not None:
            self._back.close()

    def refresh(self, partitions: list[Partition]) -> None:
        """Read positions and maps again, as Translator.refresh does, for both flows."""
        found = self._finder.find_flow()
        if found != self._flow_back:
            if self._back is not None:
                self._back.close()
            self._flow_back, self._back = found, Translator(found) if found else None
        self._there.refresh(partitions)
        self._unmoved = self._there.unmoved(partitions)
        if self._back is not None:
            self._back.refresh(partitions)

    def to_downstream(self, partition: Partition, upstream: int) -> Translation:
        """Where on the target a group has to go on that would read `upstream` next on the source.

        If that is an earlier offset than the one of the source's next record, `reason` says so.
        """
        return self._earlier(self._of_source(partition, upstream))

    def end(self, partition: Partition) -> Translation:
        """Where a group has to go on that has read all that is copied."""
        position = self._there.seen(partition).position
        return self.to_downstream(partition, position.offset if position is not None else 0)

    def remote(self, topic: str) -> str:
        """The remote topic of a topic of the source."""
        return self._there.remote(topic)

    def remote_id(self, partition: Partition) -> str:
        """The id of the remote topic that the last refresh has found; "" if it is not known."""
        return self._there.remote_id(partition)

    def _of_source(self, partition: Partition, upstream: int) -> Translation:
        """Where the source's next record is on the target. If it is not copied yet, the end of the target's log.

        The end is certain only if nothing was copied while it was read. Otherwise the offset after the last copied
        record counts.
        """
        found, seen = self._there.to_downstream(partition, upstream), self._there.seen(partition)
        position = seen.position
        if partition not in self._unmoved or position is None or seen.log_end is None or upstream > position.offset:
            return found
        if seen.recreated:  # the map is that of the old topic, so its end says nothing
            return found
        end = End(position.offset, position.map_end)
        if not is_after_all(self._there.entries(partition, position), upstream, end):
            return found
        return replace(found, translated=seen.log_end, reason="")

    def _earlier(self, found: Translation) -> Translation:
        if found.translated is None or found.offset is None:
            return found
        read = self._read_before(found.partition, found.offset) if found.remote == found.partition.topic else ""
        if not isinstance(read, int):
            return replace(found, translated=None, reason=f"{NO_WAY_BACK}: {read}" if read else NO_WAY_BACK)
        kept = max(read, self._there.seen(found.partition).log_start or 0)
        return replace(found, translated=min(found.translated, kept), reason=EARLIER if kept < found.translated else "")

    def _read_before(self, partition: Partition, offset: int) -> int | str:
        """Each record written on the target before the answer is before `offset` on the source.

        If there is no such answer, it is the reason, or "" if there is no flow back. While the target's
        topic was created again, and the flow back has not begun with the new one, its map says nothing about the new
        one's records.
        """
        if self._back is None:
            return ""
        seen = self._back.seen(partition)
        if seen.recreated:
            return seen.recreated
        if (position := seen.position) is None:
            return Unknown.NOT_COPIED.value
        end = End(position.offset, position.map_end)
        found = read_before(self._back.entries(partition, position), offset, end)
        return found if isinstance(found, int) else found.value
