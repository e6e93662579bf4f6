"""A standby: waits until a flow has had no living service for a stated time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException

from mirror.control.control_reader import ControlReader
from mirror.errors import ClusterAway, ForeignPlan, MirrorError
from mirror.kafka.cluster import ClusterAdmin
from mirror.logs import OnChange
from mirror.settings import Flow
from mirror.status.cluster_status import ClusterStatus
from mirror.status.flow_status import FlowStatus
from mirror.text import BUG

log = logging.getLogger(__name__)

LISTEN_INTERVAL = 1.0  # seconds between two readings of a control topic


class Vigil:
    """Decides when a flow counts as having no living service. Pure: it gets monotonic times, and what was heard.

    Silence counts only while the standby hears. What it can't hear may be there, so each failed reading starts the
    count anew.
    """

    def __init__(self, after: float) -> None:
        """`after` is in seconds."""
        self._after = after
        self._since: float | None = None  # when the newest sign of life was heard, or hearing began
        self._heard: Hashable = None

    def note(self, heard: Hashable, began: float, ended: float) -> bool:
        """Take note of a reading from `began` to `ended`. True if nothing was heard for long enough.

        `heard` differs from one sign of life to the next; None if the reading has failed. A reading proves only that
        there was nothing before it began: the process may have been suspended in the middle of it.
        """
        if heard is None:
            self._since = None
        elif self._since is None or heard != self._heard:
            self._since, self._heard = ended, heard
        return self._since is not None and began - self._since >= self._after


class Listener(threading.Thread):
    """Listens for the service that leads one flow, until `finish`, and puts what it hears into the status."""

    def __init__(self, flow: Flow, status: FlowStatus, source: ClusterStatus, after: float) -> None:
        super().__init__(daemon=True, name=f"standby {flow.name}")
        self.over = False  # the flow has had no living service for `after` seconds
        self.deaf = "nothing was read yet"  # why nobody knows whether a service lives; empty if that is known
        self._flow = flow
        self._status = status
        self._source = source
        self._finished = threading.Event()
        self._telling = threading.Lock()
        self._vigil = Vigil(after)
        self._admin = ClusterAdmin(flow.target)
        self._reader = ControlReader(flow)
        self._told = OnChange()
        status.stand_by(self.deaf)

    def run(self) -> None:
        """Listen again and again; a defect must not end that for good."""
        while not self._finished.is_set():
            began, heard = time.monotonic(), None
            try:
                heard, self.deaf = self._listen(), ""
            except (MirrorError, KafkaException) as error:
                self.deaf = str(error)
            except Exception as error:
                log.exception(BUG, extra={"flow": self._flow.name})
                self.deaf = f"{type(error).__name__}: {error}"
            self._tell()
            self.over = self._vigil.note(heard, began, time.monotonic())
            self._finished.wait(LISTEN_INTERVAL)
        self._reader.close()

    def finish(self) -> None:
        """Listen no more, and say in the status that the flow starts. It does not wait for a reading under way."""
        with self._telling:
            self._finished.set()
            self._status.stand_by(None)

    @property
    def flow(self) -> str:
        """The name of the flow."""
        return self._flow.name

    def _listen(self) -> Hashable:
        """What differs from one sign of life to the next. Raises MirrorError, KafkaException if that is not known."""
        topic, source = self._flow.control_topic, self._source
        if not source.reachable:
            raise ClusterAway(source.alias, source.reason or "no answer yet")
        refusal = self._admin.ids_now([topic])[1].get(topic)
        if refusal is not None and refusal.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return "no control topic"  # the flow has never run
        if refusal is not None:
            raise KafkaException(refusal)
        try:
            self._reader.read_to_end()
        except ForeignPlan:
            return self._reader.signs  # read to the end nevertheless
        plan = self._reader.plan
        return self._reader.signs, plan and (plan.leader, plan.generation)

    def _tell(self) -> None:
        sign = self._reader.sign
        leader = f"the last sign of life is from {sign.host}" if sign else "no service has given a sign of life yet"
        said = f"not known whether a service leads it: {self.deaf}" if self.deaf else leader
        with self._telling:
            if not self._finished.is_set():
                self._status.stand_by(said)
        if self._told.is_new(said):
            log.info("standby waits", extra={"flow": self._flow.name, "reason": said})


class Standby:
    """Waits for all flows of a service together, so that one service leads them all."""

    def __init__(
        self, flows: Sequence[tuple[Flow, FlowStatus]], clusters: Mapping[str, ClusterStatus], after: float
    ) -> None:
        """`clusters` are by alias. `after` is in seconds."""
        self.waits = True
        self._after = after
        self._listeners = [Listener(flow, status, clusters[flow.source.alias], after) for flow, status in flows]

    def wait(self, stopping: threading.Event) -> bool:
        """Wait until one of the flows has had no living service for long enough. False if `stopping` was set before.

        One is enough: its service is dead, or has lost one of the flow's clusters, which this service reaches.
        """
        log.info("standby begins to wait", extra={"seconds": self._after})
        for listener in self._listeners:
            listener.start()
        while not stopping.wait(0.2) and not any(each.over for each in self._listeners):
            pass
        silent = [each.flow for each in self._listeners if each.over]
        for listener in self._listeners:
            listener.finish()
        self.waits = False
        if stopping.is_set():
            return False
        for flow in silent:
            log.warning("no living service, the standby takes over", extra={"flow": flow})
        return True

    def problems(self) -> list[str]:
        """Why it could not take over, by flow; empty if it could."""
        return [
            f"{each.flow}: not known whether a service leads it: {each.deaf}" for each in self._listeners if each.deaf
        ]
