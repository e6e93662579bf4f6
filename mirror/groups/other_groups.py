"""Groups that are no consumer groups: mirror does not sync them, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror.errors import WireError
from mirror.wire.cluster import Cluster
from mirror.wire.groups import list_groups

TIMEOUT = 3.0  # seconds: no group round has to wait for it
# By the type as brokers name it: why groups of this type are not synced.
REASONS: Mapping[str, str] = {
    "share": "a share group (KIP-932): what it has read is no offset, but a state of each record",
    "streams": "a streams group (KIP-1071): mirror syncs consumer groups only",
}


async def other_groups(client: Cluster) -> dict[str, str]:
    """Why groups are not synced, by name, as far as the brokers say it in time."""
    try:
        async with asyncio.timeout(TIMEOUT):
            nodes = await client.brokers()
    except (WireError, TimeoutError):
        return {}
    found = await asyncio.gather(*(_types(client, node) for node in nodes))
    return {name: REASONS[kind] for types in found for name, kind in types.items() if kind in REASONS}


async def _types(client: Cluster, node: int) -> Mapping[str, str]:
    """The types of a broker's groups by name; none if it does not answer in time: others may."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return (await (await client.connection(node)).ask(list_groups(list(REASONS)))).types
    except (WireError, TimeoutError):
        return {}
