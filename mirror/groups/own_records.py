"""Which of the target's own records a group has read on the source, by the offset maps of the flows back."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.errors import ClusterAway, FlowError, PartitionError
from mirror.groups.flow_back import FlowBack, FlowsBack
from mirror.groups.translation import End, Unknown, read_before
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.settings import Flow


class OwnRecords:
    """Follows the flows back of a flow. Each topic is read in the map of one of them."""

    def __init__(self, flow: Flow) -> None:
        self._source = ClusterAdmin(flow.source)
        self._finder = FlowsBack(flow)
        self._found: list[FlowBack] = []
        self._translators: dict[str, tuple[Flow, Translator]] = {}  # by the flow's alias for our target
        self._by_topic: dict[str, str] = {}  # that alias
        self._failed: dict[str, str] = {}  # by alias: why nothing is known of that flow since the last refresh

    def close(self) -> None:
        """End the clients."""
        self._finder.close()
        for alias in list(self._translators):
            self._leave(alias)

    def refresh(self, partitions: Sequence[Partition]) -> None:
        """Look for the flows back, and read their positions and maps again. Raises ClusterAway, ForeignPlan.

        What can't be read of a flow back is the reason for its topics.
        """
        found = {back.flow.source.alias: back for back in self._finder.find()}
        self._by_topic = {topic: alias for alias, back in found.items() for topic in back.topics}
        for alias, (flow, _) in list(self._translators.items()):
            if alias not in found or found[alias].flow != flow:
                self._leave(alias)
        self._failed = {}
        for alias, back in found.items():
            some = [each for each in partitions if each.topic in back.topics]
            if some and (reason := self._read(back.flow, some)):
                self._failed[alias] = reason

    def read_before(self, partition: Partition, offset: int) -> int | str:
        """Each record written on the target before the answer is before `offset` on the source.

        If there is no such answer, it is the reason, or "" if there is no flow back. While the target's topic was
        created again, and the flow back has not begun with the new one, its map says nothing about the new one's
        records.
        """
        alias = self._by_topic.get(partition.topic)
        if alias is None or alias in self._failed:
            return self._failed[alias] if alias is not None else ""
        _, translator = self._translators[alias]
        seen = translator.seen(partition)
        if seen.recreated:
            return seen.recreated
        if (position := seen.position) is None:
            return Unknown.NOT_COPIED.value
        end = End(position.offset, position.map_end)
        found = read_before(translator.entries(partition, position), offset, end)
        return found if isinstance(found, int) else found.value

    def _read(self, flow: Flow, partitions: Sequence[Partition]) -> str:
        """Read what a flow back has of these partitions. Returns the reason if that is not possible, else ""."""
        name, alias = flow.offset_map_topic, flow.source.alias
        try:
            # A flow without transactions has no map. Whoever reads a topic that does not exist waits for it.
            _, refused = self._source.ids_now([name])
            if name in refused:
                return f"{name} can't be read: {refused[name].str()}"
            if alias not in self._translators:
                self._translators[alias] = flow, Translator(flow)
            self._translators[alias][1].refresh(partitions)
        except (ClusterAway, PartitionError, FlowError) as error:
            return str(error)
        return ""

    def _leave(self, alias: str) -> None:
        _, translator = self._translators.pop(alias)
        translator.close()
