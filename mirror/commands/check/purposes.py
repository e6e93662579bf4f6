"""What else mirror's commands need to be allowed, for `mirror check --acls --for`. MirrorMaker has its usual names."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from mirror.commands.adopt.command import sync_places
from mirror.commands.check.permissions import COPY, CREATE, READ_SOURCE, TRANSACTIONS, Kind, Need, asked
from mirror.groups.selected import selected
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Flow


class Purpose(StrEnum):
    """What somebody wants to do."""

    RUN = "run"
    OPERATE = "operate"
    ADOPT = "adopt"
    HAND_BACK = "hand-back"


def asked_for(flow: Flow, purpose: Purpose) -> list[Need]:
    """What is needed for it. Asks the source for its topics and groups. Raises ClusterAway or FlowError."""
    if purpose is Purpose.OPERATE:
        return list(operating(flow, tuple(sorted(selected(flow, ClusterAdmin(flow.source).partitions()).remotes))))
    more = {Purpose.RUN: lambda _: iter(()), Purpose.ADOPT: adopting, Purpose.HAND_BACK: handing_back}
    return [*asked(flow), *more[purpose](flow)]


def operating(flow: Flow, topics: tuple[str, ...]) -> Iterator[Need]:
    """What a person's own user needs, who runs no service."""
    target, describe = flow.target, frozenset({"DESCRIBE"})
    both = (flow.control_topic, flow.status_topic)
    yield Need(target, Kind.TOPIC, both, READ_SOURCE, "status: to read the plan, the orders and the reports")
    why = "pause, resume: to see whether mirror's own topics are there"
    yield Need(target, Kind.TOPIC, flow.own_topics, describe, why)
    yield Need(
        target, Kind.TOPIC, (flow.control_topic,), frozenset({"WRITE"}), "pause, resume: to write what is decided"
    )
    if topics:
        why = "resume with a decision: to see which offsets the source has"
        yield Need(flow.source, Kind.TOPIC, topics, describe, why)


def adopting(flow: Flow) -> Iterator[Need]:
    """What `mirror adopt` needs beside what a service needs."""
    offsets = f"mm2-offsets.{flow.source.alias}.internal"
    yield Need(flow.target, Kind.TOPIC, (offsets,), READ_SOURCE, "adopt: MirrorMaker's positions")
    syncs = tuple(name for cluster, name in sync_places(flow) if cluster is flow.source)
    yield Need(flow.source, Kind.TOPIC, syncs, READ_SOURCE, "adopt: MirrorMaker's offset syncs, if they are there")
    yield from _ending_mirrormaker(flow, "adopt")


def handing_back(flow: Flow) -> Iterator[Need]:
    """What `mirror hand-back` needs beside what a service needs."""
    offsets, why = (flow.connect_offsets_topic,), "hand-back: to write MirrorMaker's positions"
    yield Need(flow.target, Kind.TOPIC, offsets, COPY | CREATE, why)
    yield from _ending_mirrormaker(flow, "hand-back")


def _ending_mirrormaker(flow: Flow, command: str) -> Iterator[Need]:
    group = f"{flow.source.alias}-mm2"
    why = f"{command}: to see whether MirrorMaker's workers run"
    yield Need(flow.target, Kind.GROUP, (group,), frozenset({"DESCRIBE"}), why)
    why = f"{command}: to fence MirrorMaker's tasks"
    yield Need(flow.target, Kind.TRANSACTIONAL_ID, (f"{group}-",), TRANSACTIONS, why, prefixed=True)
