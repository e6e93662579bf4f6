"""The canary of a flow: writes a record to the source each interval, and notes when it can be read on the target.

The flow copies the topic like any other. So the canary shows that an idle flow works, and how long copying takes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial

from mirror.backoff import Backoff
from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.decode import DecodeError
from mirror.kafka.source_topic import SourceTopic
from mirror.logs import OnChange
from mirror.service.canary_reader import CanaryReader
from mirror.service.canary_records import CanaryFlights
from mirror.settings import Flow
from mirror.status.canary import CanaryStatus

log = logging.getLogger(__name__)

POLL = 0.5  # seconds after which the thread looks whether it has to stop
LOOK_INTERVAL = 10.0  # seconds between two looks for topics that are asked for, as refresh_topics_interval by default
STUCK, STUCK_MOST = 30.0, 300.0  # seconds for which a record may be overdue before another consumer is tried
TRY_AGAIN = 5.0  # seconds before the target is asked again where the topic ends
# Compacted, so that no record is ever lost to retention; the segments roll soon, so that it stays short.
CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000"}


class Canary(FlowLeaderPart):
    """Writes and reads in a thread of its own. Only the flow leader has one."""

    def __init__(
        self, flow: Flow, topics: Callable[[], Collection[str]], tell: Callable[[CanaryStatus], object]
    ) -> None:
        """`topics` gives the source topics of the plan. `tell` gets what is known.

        Both are called in another thread, `tell` never after `stop` has returned.
        """
        super().__init__("canary", flow)
        self._topics = topics
        self._tell = tell
        self._lacking = threading.Event()  # set when the source has a topic that the plan lacks
        self._known: CanaryStatus | None = None  # as last told; None before that, and once forgotten

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.canary.enabled

    def _forget(self) -> None:
        self._known = None

    def wants_look(self) -> bool:
        """True, once, if the flow should look for topics, because the plan lacks the one that is on the source."""
        if not self._lacking.is_set():
            return False
        self._lacking.clear()
        return True

    def _work(self, stopping: threading.Event) -> None:
        interval, due, look = self._flow.canary.interval, 0.0, 0.0  # the last two are monotonic
        # After an unexpected error, or with other settings, the time goes on. Otherwise such errors or reloads, one
        # after the other, would look like a canary that has just begun.
        with closing(_Watch(self._flow, self._known)) as watch:
            while not stopping.is_set():
                self._thread.tell(partial(self._publish, watch.status))
                now = time.monotonic()
                if now >= due:
                    due = now + interval
                    watch.is_planned = self._flow.canary_topic in self._topics()
                    watch.write()
                    if watch.is_sought and now >= look:
                        watch.is_new, look = False, now + LOOK_INTERVAL
                        self._lacking.set()
                watch.read(stopping, min(POLL, max(0.0, due - time.monotonic())))

    def _publish(self, found: CanaryStatus) -> None:
        self._known = found
        self._tell(found)


class _Watch:
    """Writes canaries and waits for them, as long as the thread runs with the same settings."""

    def __init__(self, flow: Flow, known: CanaryStatus | None) -> None:
        """`known` has the last canary until another one arrives. With None they begin now."""
        self.is_planned = False  # True if the plan has the topic
        self.is_new = False  # True if the topic was created here, and the flow was not asked yet to look for it
        self._flow = flow
        self._key = flow.name.encode()
        self._flights = CanaryFlights(time.time, time.monotonic)
        self._source = SourceTopic(flow, flow.canary_topic, CONFIG, "canaries")
        self._reader = CanaryReader(flow)
        self._exists = False  # the topic on the source, as far as is known
        # As in the status: when the last one was written, and how long it took.
        self._at, self._seconds = (time.time(), None) if known is None else (known.at, known.seconds)
        self._renewal = 0.0  # monotonic: not before that
        self._backoff = Backoff(STUCK, STUCK_MOST)
        self._why = OnChange()

    @property
    def status(self) -> CanaryStatus:
        """What is known by now."""
        source, target = self._flow.source.alias, self._flow.target.alias
        problem = ""
        if self._source.problem:
            problem = f"none can be written to {source}: {self._source.problem}"
        elif not self.is_planned:
            problem = "the plan does not have its topic yet"
        elif self._reader.problem:
            problem = f"none can be read on {target}: {self._reader.problem}"
        return CanaryStatus(self._flow.canary_topic, self._at, self._seconds, problem)

    @property
    def is_sought(self) -> bool:
        """True if the source has the topic, and the plan does not have this very topic."""
        return self._exists and (self.is_new or not self.is_planned)

    def write(self) -> None:
        """Write the next record."""
        before = self._source.created
        self._exists = self._source.write(self._key, self._flights.next())
        self.is_new |= self._source.created > before

    def read(self, stopping: threading.Event, timeout: float) -> None:
        """Wait for records for at most `timeout` seconds, unless the topic can't be read now."""
        self._source.poll()
        if self.is_planned:
            self._keep_reader()
        if not self._reader.is_open:
            stopping.wait(timeout)
        for value in self._reader.poll(timeout):
            try:
                arrival = self._flights.arrived(value)
            except DecodeError as error:
                self._ignore(str(error))
            else:
                if arrival is not None:
                    self._at, self._seconds = arrival.at, arrival.seconds

    def close(self) -> None:
        """End the clients."""
        self._source.close()
        self._reader.close()

    def _keep_reader(self) -> None:
        now, stuck = time.monotonic(), self._flights.waits > STUCK
        if not stuck:
            self._backoff.reset()
        if now >= self._renewal and (stuck or not self._reader.is_open):
            self._reader.renew()
            self._renewal = now + (self._backoff.next() if self._reader.is_open else TRY_AGAIN)

    def _ignore(self, reason: str) -> None:
        if self._why.is_new(True, reason):  # strangers can't fill the log: there are few reasons
            where = {"flow": self._flow.name, "topic": self._flow.canary_topic, "reason": reason}
            log.warning("record that is no canary is ignored", extra=where)
