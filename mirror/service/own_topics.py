"""How mirror creates its own topics on the target."""

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

# Most refused records are too large, so the topic of dead letters takes any size.
DEAD_LETTER_CONFIG = {"max.message.bytes": str(2**31 - 1)}

CONNECT_OFFSETS = 25  # partitions of Connect's offsets topic: its own default, offset.storage.partitions


def own_topic(flow: Flow, name: str) -> NewTopic:
    """How to create the topic of mirror's own that has this name."""
    config = DEAD_LETTER_CONFIG if name == flow.dead_letter_topic else INTERNAL_CONFIG
    count = CONNECT_OFFSETS if name == flow.connect_offsets_topic else 1
    return NewTopic(name, count, flow.internal_replication_factor, config=config)


def dispensable(flow: Flow) -> Mapping[str, str]:
    """The topics without which copying goes on; for each, what can't be done without it."""
    return {
        flow.checkpoint_topic: "no checkpoints can be written",
        flow.connect_offsets_topic: "no positions can be written for MirrorMaker",
    }
