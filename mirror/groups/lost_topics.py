"""Tells which topics a cluster does not have any more, by their ids (KIP-516)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from mirror.errors import ClusterAway, Malformed, Unsupported, WireError
from mirror.kafka.cluster import NAMES, chunks
from mirror.kafka.credentials import properties_of
from mirror.settings import Cluster
from mirror.wire import cluster as wire
from mirror.wire.access import access
from mirror.wire.error_codes import CODES
from mirror.wire.metadata import NO_ID, id_of, metadata_by_id

log = logging.getLogger(__name__)

_UNKNOWN = CODES["UNKNOWN_TOPIC_ID"]


def lost_topics(cluster: Cluster, ids: Collection[str]) -> set[str]:
    """Those of the ids that no topic of the cluster has, whatever its name, as one broker knows it.

    A topic that mirror may not see is not lost. Where our client can't log in, or a broker is too old to tell, none is.
    Raises ClusterAway.
    """
    if not ids:
        return set()
    try:
        return asyncio.run(_lost(cluster, ids))
    except Unsupported as error:
        said = {"cluster": cluster.alias, "reason": str(error)}
        log.debug("topics can't be looked for by their ids", extra=said)
        return set()
    except WireError as error:
        raise ClusterAway(cluster.alias, f"topics can't be looked for by their ids: {error}") from error


async def _lost(cluster: Cluster, ids: Collection[str]) -> set[str]:
    client = wire.Cluster(access(properties_of(cluster)))
    try:
        known = {each: encoded for each in ids if (encoded := _encoded(each)) is not None}
        lost = set(ids) - known.keys()
        for some in chunks(known, NAMES):
            errors = await client.ask(metadata_by_id([known[each] for each in some]))
            lost |= {each for each in some if errors.get(known[each]) == _UNKNOWN}
        return lost
    finally:
        client.close()


def _encoded(topic_id: str) -> bytes | None:
    """The id; None if no topic can have it."""
    try:
        found = id_of(topic_id)
    except Malformed:
        return None
    return None if found == NO_ID else found
