"""The consumer groups of the source that take part in a flow's group rounds, and their committed offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.group_offsets import Committed, GroupOffsets, shown_group
from mirror.groups.patience import Patience
from mirror.groups.position_groups import OWN_GROUP, POSITIONS, is_position
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import INTERNAL, matcher
from mirror.settings import Flow
from mirror.unmatched_entries import groups_match_nothing, warning

log = logging.getLogger(__name__)


def taking_part(flow: Flow, groups: Iterable[str]) -> list[str]:
    """The consumer groups of the source that take part in the flow's rounds, sorted.

    The flow's own group never does: on the target, a commit to it would move the flow.
    """
    return [name for name in sorted(filter(selects(flow), groups)) if name != flow.group]


def selects(flow: Flow) -> Callable[[str], bool]:
    """True for a group that the configuration selects."""
    include, exclude = matcher(flow.groups.include), matcher(flow.groups.exclude)
    return lambda name: include(name) and not exclude(name)


def _has_positions(offsets: Mapping[Partition, Committed]) -> bool:
    return any(is_position(at.metadata) for at in offsets.values())


class SourceGroups:
    """Reads the offsets of all groups that take part, once in each round. It remembers who was left out, and why."""

    def __init__(self, flow: Flow, source: ClusterAdmin) -> None:
        self._flow = flow
        self._source = source
        self.refused: Mapping[str, str] = {}  # groups whose offsets the source did not give in the last round, and why
        self.left_out: Mapping[str, str] = {}  # groups that are no consumer groups, and why they are not synced
        self._names: Collection[str] = ()  # of the groups that took part in the last round
        self._judged = False  # True once groups.include was compared with the source's groups

    def offsets(self) -> dict[str, dict[Partition, Committed]]:
        """The committed offsets of each group that takes part. Raises ClusterAway."""
        listed, are_listed = self._source.listed_groups()
        if are_listed:
            self._log_entries(listed)
        # A broker that does not tell its groups hides them. So those that were known before are asked for all the same.
        names = self._names = taking_part(self._flow, listed if are_listed else {*listed, *self._names})
        partitions = {
            Partition(name, n): (name, n)
            for name, count in self._source.partitions().items()
            if not INTERNAL.fullmatch(name)
            for n in range(count)
        }
        found: dict[str, dict[Partition, Committed]] = {}
        refused: dict[str, str] = {}
        with closing(GroupOffsets(self._flow.source)) as here:
            here.find_coordinators(names)
            others, are_all = here.others()
            patience = Patience()
            for name in names:
                try:
                    found[name], failed = here.all_of(name, partitions, patience.timeout)
                    refused.update((name, reason) for reason in list(failed.values())[:1])
                    patience.note(None)
                except (ClusterAway, PartitionError) as error:
                    patience.note(error)
                    refused[shown_group(name)] = str(error)
            patience.end()
        if not are_all:  # then what was said before still counts
            others = {name: reason for name, reason in self.left_out.items() if name not in names} | others
        others |= dict.fromkeys({self._flow.group}.intersection(listed), OWN_GROUP)
        others |= dict.fromkeys((name for name, some in found.items() if _has_positions(some)), POSITIONS)
        left_out = {shown_group(name): others[name] for name in sorted(filter(selects(self._flow), others))}
        self._note({name: reason for name, reason in refused.items() if name not in left_out}, left_out)
        return {name: some for name, some in found.items() if name not in left_out}

    def _note(self, refused: Mapping[str, str], left_out: Mapping[str, str]) -> None:
        for name, reason in {**refused, **left_out}.items():
            if name not in self.refused and name not in self.left_out:
                log.warning("a group is left out", extra={"flow": self._flow.name, "group": name, "reason": reason})
        self.refused, self.left_out = refused, left_out

    def _log_entries(self, groups: Collection[str]) -> None:
        if not self._judged:
            self._judged = True
            if reason := warning(groups_match_nothing(self._flow.groups, groups)):
                log.warning("entries match no group", extra={"flow": self._flow.name, "reason": reason})
