"""Loads many of a flow's positions at once, although transactions may hold some of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from mirror.errors import PartitionError, Unsupported, WireError
from mirror.kafka.credentials import properties_of
from mirror.model import Partition, Position
from mirror.settings import Flow
from mirror.target.coordination import committed_offsets
from mirror.target.loading import Tokens
from mirror.target.position_metadata import decoded
from mirror.target.position_reader import PositionReader
from mirror.wire import cluster as wire
from mirror.wire.access import access

log = logging.getLogger(__name__)

Loaded = dict[Partition, Position]


class LoadedPositions:
    """Loads positions by remote partition, with mirror's own client. Only one thread uses it.

    A broker answers for each partition by itself. librdkafka asks again and again until no transaction holds any of the
    positions. So it is used only where our client can't log in, or a broker is too old.
    """

    def __init__(self, flow: Flow, of_librdkafka: PositionReader) -> None:
        self._flow = flow
        self._of_librdkafka = of_librdkafka
        self._tokens = Tokens()
        self._runner = asyncio.Runner()  # its loop runs while we wait for an answer
        self._client: wire.Cluster | None = None

    def close(self) -> None:
        """End the client."""
        self.disconnect()
        self._runner.close()

    def disconnect(self) -> None:
        """Close the connections. They may get so old that a firewall drops them, and tells nobody."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def load(self, remotes: Collection[Partition]) -> Loaded:
        """The positions of these partitions, none older than the begin of this call.

        Where a transaction holds the position, or the target does not give it, the partition is missing. Raises
        ClusterAway.
        """
        if not remotes:
            return {}
        try:
            try:
                client = self._client = self._client or wire.Cluster(access(properties_of(self._flow.target)))
                return self._runner.run(self._answered(client, remotes))
            except Unsupported:
                found = self._of_librdkafka.load_all(remotes)
                return {Partition(*where): at for where, at in found.items() if at is not None}
        except (PartitionError, WireError) as error:
            # Not more than debug: who asks says that it is not known, and each group round asks again.
            log.debug("positions can't be loaded", extra={"flow": self._flow.name, "reason": str(error)})
            return {}

    async def _answered(self, client: wire.Cluster, remotes: Collection[Partition]) -> Loaded:
        flow = self._flow
        found = await committed_offsets(
            client, flow.group, flow.control_topic, self._tokens, remotes, lambda answer: (answer.error,)
        )
        given = [(each, *found[each]) for each in remotes if each in found]
        loaded = {each: decoded(at.offset, at.epoch, at.metadata) for each, error, at in given if not error}
        return {each: at for each, at in loaded.items() if at is not None}
