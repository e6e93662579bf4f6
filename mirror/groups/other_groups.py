"""Groups that are no consumer groups: mirror does not sync them, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror.errors import WireError
from mirror.wire.cluster import Cluster
from mirror.wire.groups import Listed, list_groups

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
            answers = await asyncio.gather(
                *(_listed(client, node) for node in await client.brokers()), return_exceptions=True
            )
    except (WireError, TimeoutError):
        return {}
    unforeseen = [each for each in answers if isinstance(each, BaseException) and not isinstance(each, WireError)]
    if unforeseen:
        raise unforeseen[0]
    found = [each.types for each in answers if isinstance(each, Listed)]
    return {name: REASONS[kind] for types in found for name, kind in types.items() if kind in REASONS}


async def _listed(client: Cluster, node: int) -> Listed:
    return await (await client.connection(node)).ask(list_groups(list(REASONS)))
