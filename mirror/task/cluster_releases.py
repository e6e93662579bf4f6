"""Whether source and target are new enough for the batch path: a fact of the task, and not of a single partition."""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError, Future
from contextlib import suppress

from mirror.clock import Clock
from mirror.errors import Unsupported, WireError
from mirror.source.broker_fetches import check_source
from mirror.target.batch_take_over import check_target
from mirror.task.batch_loop import BatchLoop
from mirror.wire.cluster import Cluster
from mirror.wire.greeting import api_versions

log = logging.getLogger(__name__)

SOURCE, TARGET = "source_too_old", "unsupported"  # reasons; a batch copier may also find them out by itself
FIRST_ANSWER = 5.0  # seconds for which nothing else goes on, once in a task
ASK_AGAIN = 3600.0  # seconds


class Releases:
    """Asks one broker of each cluster. Only the plan follower uses it."""

    def __init__(self, clock: Clock) -> None:
        self.too_old = ""  # the reason for which the batch path can't be used; "" as long as none is known
        self._clock = clock
        self._asked: Future[str] | None = None
        self._ask_at = 0.0  # monotonic

    def ask_first(self, loop: BatchLoop) -> None:
        """Ask before anything is taken over. If no answer comes soon, batch copiers may find it out before `keep`."""
        self._asked = loop.ask(too_old(loop))
        with suppress(TimeoutError, WireError, CancelledError):
            self.found(self._asked.result(FIRST_ANSWER))
            self._asked = None

    def found(self, too_old: str) -> None:
        """Keep what was found out, for an hour."""
        self.too_old = too_old
        self._ask_at = self._clock.monotonic() + ASK_AGAIN

    def keep(self, loop: BatchLoop) -> None:
        """Now and then: ask again while a cluster is too old, because somebody may upgrade it."""
        if self._asked is not None and self._asked.done():
            with suppress(WireError, CancelledError):
                self.found(self._asked.result())
            self._asked = None
        elif self.too_old and self._asked is None and self._clock.monotonic() >= self._ask_at:
            self._asked = loop.ask(too_old(loop))
            self._ask_at = self._clock.monotonic() + ASK_AGAIN


async def too_old(loop: BatchLoop) -> str:
    """Why the batch path can't be used between these clusters; "" if it can. Raises WireError if one is away."""
    clusters: dict[str, Cluster] = {TARGET: loop.services.target, SOURCE: loop.fetcher.cluster}
    for reason, cluster in clusters.items():
        try:
            connection = await cluster.any()
            # Features may have changed since the connection was opened.
            connection.abilities = await connection.ask(api_versions())
            (check_target if reason == TARGET else check_source)(connection)
        except Unsupported as error:
            said = "the record path is used: a cluster is too old for the batch path"
            log.info(said, extra={"flow": loop.services.plan.flow.name, "reason": str(error)})
            return reason
    return ""
