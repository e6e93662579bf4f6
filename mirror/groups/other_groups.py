"""Groups that are no consumer groups: mirror does not sync them, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror.errors import Unsupported, WireError
from mirror.wire.cluster import Cluster
from mirror.wire.groups import list_groups

TIMEOUT = 3.0  # seconds: no group round has to wait for it
# By the type as brokers name it: why groups of this type are not synced.
REASONS: Mapping[str, str] = {
    "share": "a share group (KIP-932): what it has read is no offset, but a state of each record",
    "streams": "a streams group (KIP-1071): mirror syncs consumer groups only",
}


async def other_groups(client: Cluster) -> tuple[dict[str, str], bool]:
    """Why groups are not synced, by name, as far as the brokers say it in time; and whether all of them did."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    try:
        async with asyncio.timeout_at(deadline):
            nodes = list(await client.brokers())
    except (WireError, TimeoutError):
        return {}, False
    answers = await asyncio.gather(*(_types(client, node, deadline) for node in nodes))
    known = [types for types in answers if types is not None]
    found = {name: REASONS[kind] for types in known for name, kind in types.items() if kind in REASONS}
    return found, len(known) == len(nodes)


async def _types(client: Cluster, node: int, deadline: float) -> Mapping[str, str] | None:
    """The types of a broker's groups by name. None if it does not say, such as while it still loads them."""
    try:
        async with asyncio.timeout_at(deadline):
            answer = await (await client.connection(node)).ask(list_groups(list(REASONS)))
    except Unsupported:
        return {}  # it is too old for such groups
    except (WireError, TimeoutError):
        return None
    return None if answer.error else answer.types
