"""With active_active: which records of two topics under one name belong to the flow. See decision 0007."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from mirror.batches.records import Content, decode, encode
from mirror.control.newest_plan import newest_plan
from mirror.errors import MirrorError
from mirror.kafka import provenance
from mirror.records.consumed import Record
from mirror.settings import Flow

_NAME = provenance.NAME.encode()


@dataclass(frozen=True, slots=True)
class Shared:
    """The ends of a flow, and what of their topics it copies. It travels to Spark's tasks."""

    source: str  # alias
    source_id: str
    target_id: str
    unmarked: frozenset[str] = frozenset()  # remote topics that may have copies without the header

    def own(self, cluster: str, topic: str, partition: int, records: Iterable[Record]) -> Generator[Record, None, None]:
        """Of the records of one partition, those that the flow copies, or has copied; without mirror's header.

        `cluster` is its alias. Raises Malformed.
        """
        at_source = cluster == self.source
        for offset, timestamp, encoded in records:
            if encoded is None:  # no copy has unreadable headers
                if at_source:
                    yield offset, timestamp, None
                continue
            if _NAME not in encoded:  # as a rule nothing has to be decoded
                if at_source:
                    yield offset, timestamp, encoded
                continue
            content = decode(encoded)
            values = [value for name, value in content.headers if name == _NAME]
            ids = provenance.route(values, topic, partition)
            if self.target_id not in ids if at_source else ids[-1:] == (self.source_id,):
                yield offset, timestamp, encode(_without(content)) if values else encoded


def _without(content: Content) -> Content:
    return content._replace(headers=[header for header in content.headers if header[0] != _NAME])


def shared_of(flow: Flow) -> Shared | None:
    """What the flow's newest plan says; None without `active_active`. Raises MirrorError if the plan lacks the mark."""
    if not flow.active_active:
        return None
    plan, _ = newest_plan(flow)
    if plan is None or not plan.active_active or len(plan.clusters) != 2:
        raise MirrorError(f"{flow.name} has not run with active_active: true yet, so there is nothing to compare")
    source_id, target_id = plan.clusters
    return Shared(flow.source.alias, source_id, target_id, frozenset(plan.unmarked))
