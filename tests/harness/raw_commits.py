"""Commits of groups as other clients than librdkafka make them: with any id, and metadata without a NUL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror.errors import Unavailable
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.metadata import GROUP
from mirror.wire.offsets import Offset, offset_commit
from tests.harness.waiting import until


def commit(bootstrap: str, group: str, topic: str, positions: Mapping[int, int], metadata: str = "") -> None:
    """Commit positions of a topic's partitions to a group without members."""
    offsets = {(topic, partition): Offset(at, metadata) for partition, at in positions.items()}

    async def is_committed() -> bool:
        cluster = Cluster(access({"bootstrap.servers": bootstrap}))
        try:
            coordinator = await cluster.connection(await cluster.coordinator(GROUP, group))
            return not any((await coordinator.ask(offset_commit(group, offsets))).values())
        except Unavailable:  # the coordinator may still be loading
            return False
        finally:
            cluster.close()

    until(f"positions of {topic}", lambda: asyncio.run(is_committed()))
