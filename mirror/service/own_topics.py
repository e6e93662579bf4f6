"""How mirror creates its own topics on the target. They take every timestamp: see kafka/topic_creation.py."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import NewTopic

from mirror.kafka.clients import INTERNAL_MAX
from mirror.settings import Flow

# Segments roll soon, and are small, so that old reports and plans are compacted soon, and a new reader has little to
# read: the newest segment is never compacted. Some services take none below 50 MiB. A plan names every partition, so it
# may be large.
INTERNAL_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "segment.bytes": str(8 * INTERNAL_MAX),
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(INTERNAL_MAX),
}

# As MirrorMaker makes its topics: compaction, and otherwise the target's defaults. Older offset syncs of a partition
# stay for as long as their segment is written to, and MirrorMaker's clients translate with them.
MIRRORMAKER_CONFIG = {"cleanup.policy": "compact"}

# Most refused records are too large, so the topic of dead letters takes any size. Some have no key: a compacted topic,
# as a broker's default may make it, would refuse them.
DEAD_LETTER_CONFIG = {"cleanup.policy": "delete", "max.message.bytes": str(2**31 - 1)}

CONNECT_OFFSETS = 25  # partitions of Connect's offsets topic: its own default, offset.storage.partitions


def own_topic(flow: Flow, name: str) -> NewTopic:
    """How to create the topic of mirror's own that has this name."""
    count = CONNECT_OFFSETS if name == flow.connect_offsets_topic else 1
    return NewTopic(name, count, flow.internal_replication_factor, config=_config(flow, name))


def _config(flow: Flow, name: str) -> dict[str, str]:
    if name == flow.dead_letter_topic:
        return DEAD_LETTER_CONFIG
    mirrormaker = name in (flow.offset_syncs_topic, flow.checkpoint_topic, flow.connect_offsets_topic)
    return MIRRORMAKER_CONFIG if mirrormaker else INTERNAL_CONFIG


def dispensable(flow: Flow) -> Mapping[str, str]:
    """The topics without which copying goes on; for each, what can't be done without it."""
    return {
        flow.checkpoint_topic: "no checkpoints can be written",
        flow.connect_offsets_topic: "no positions can be written for MirrorMaker",
    }
