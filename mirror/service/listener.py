"""Listens for the service that leads a flow, and claims the flow once it has had none for a stated time."""

from __future__ import annotations

import enum
import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException

from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import READ_TIMEOUT, ControlWriter
from mirror.control.signs import SIGN_KEY
from mirror.errors import ClusterAway, FlowError, MirrorError
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.topic_creation import create
from mirror.logs import OnChange
from mirror.service.life_signs import LifeSigns
from mirror.service.own_topics import own_topic
from mirror.settings import Flow
from mirror.status.cluster_status import ClusterStatus
from mirror.status.flow_status import FlowStatus
from mirror.text import BUG
from mirror.timing import SIGN_INTERVAL

log = logging.getLogger(__name__)

LISTEN_INTERVAL = 1.0  # seconds between two readings of a control topic
# Flows that one service led fall silent within so many seconds of each other, as a standby hears it.
TOGETHER = SIGN_INTERVAL + LISTEN_INTERVAL
NO_TOPIC = "no control topic"  # what is heard of a flow that has never run


class Claimed(enum.Enum):
    """What became of a claim."""

    WON = enum.auto()  # ours is the first sign since the flow fell silent
    LOST = enum.auto()  # another service has given a sign before
    UNKNOWN = enum.auto()  # it could not be written, or not be read back


class Vigil:
    """Knows for how long a flow has had no living service. Pure: it gets monotonic times, and what was heard.

    Silence counts only while the standby hears. What it can't hear may be there, so each failed reading starts the
    count anew.
    """

    def __init__(self) -> None:
        self._since: float | None = None  # when the newest sign of life was heard, or hearing began
        self._heard: Hashable = None

    def note(self, heard: Hashable, began: float, ended: float) -> float:
        """Take note of a reading from `began` to `ended`. Returns for how many seconds nothing was heard.

        `heard` differs from one sign of life to the next; None if the reading has failed. A reading proves only that
        there was nothing before it began: the process may have been suspended in the middle of it.
        """
        if heard is None:
            self._since = None
        elif self._since is None or heard != self._heard:
            self._since, self._heard = ended, heard
        return 0.0 if self._since is None else max(0.0, began - self._since)


class Listener(threading.Thread):
    """Listens for the service that leads one flow, until `finish`, and puts what it hears into the status."""

    def __init__(self, flow: Flow, status: FlowStatus, source: ClusterStatus, after: float) -> None:
        """`after` is in seconds."""
        super().__init__(daemon=True, name=f"standby {flow.name}")
        self.flow = flow.name
        self.deaf = "nothing was read yet"  # why nobody knows whether a service lives; empty if that is known
        self._flow = flow
        self._status = status
        self._source = source
        self._after = after
        self._lacking = after  # seconds of silence that were still lacking at the last reading
        self._heard: Hashable = None
        self._claims: queue.SimpleQueue[tuple[bytes, Future[Claimed]]] = queue.SimpleQueue()
        self._finished = threading.Event()
        self._telling = threading.Lock()
        self._vigil = Vigil()
        self._admin = ClusterAdmin(flow.target)
        self._reader = ControlReader(flow)
        self._logged = OnChange()
        status.stand_by(self.deaf)

    @property
    def is_over(self) -> bool:
        """True once the flow has had no living service for `after` seconds, or for TOGETHER after a goodbye."""
        return self._lacking <= 0

    @property
    def is_nearly_over(self) -> bool:
        """True if the service that led another flow, which is over, may have led this one, too."""
        return self._lacking <= TOGETHER

    def run(self) -> None:
        """Listen again and again; a defect must not end that for good. Claims are answered between two readings."""
        while not self._finished.is_set():
            self.read()
            try:
                sign, answer = self._claims.get(timeout=LISTEN_INTERVAL)
            except queue.Empty:
                continue
            answer.set_result(self.claimed(sign))
        self._reader.close()

    def read(self) -> None:
        """Read the control topic once. Only this thread calls it."""
        began, self._heard = time.monotonic(), None
        self._try(self._hear)
        self._tell()
        has_left = self._heard is not None and self._reader.signs.has_left
        wait = TOGETHER if has_left else self._after
        self._lacking = wait - self._vigil.note(self._heard, began, time.monotonic())

    def finish(self) -> None:
        """Listen no more, and say in the status that the flow starts. It does not wait for a reading under way."""
        with self._telling:
            self._finished.set()
            self._status.stand_by(None)

    def signs(self, service_id: str, until: threading.Event) -> LifeSigns:
        """A thread that, once started, gives signs of life for the flow that this standby has won."""
        return LifeSigns(self._flow, service_id, lambda: True, self._source, until)

    def claim(self, sign: bytes) -> Future[Claimed]:
        """Ask the listening thread for `claimed`."""
        answer: Future[Claimed] = Future()
        self._claims.put((sign, answer))
        return answer

    def claimed(self, sign: bytes) -> Claimed:
        """Claim the flow with this sign of life. Only this thread calls it. Whatever comes of it, silence counts anew.

        Of two standbys, the one whose sign comes first on the control topic wins: each reads both signs after its own
        was acknowledged, and has read neither of them when it claims.
        """
        if not self.is_nearly_over:
            return Claimed.LOST  # heard since it was asked for
        self._reader.signs.first = None
        self._try(lambda: self._give_and_read(sign))
        self._lacking = self._after - self._vigil.note(None, 0.0, 0.0)  # whatever comes of it
        first = self._reader.signs.first
        if first is None:
            return Claimed.UNKNOWN
        return Claimed.WON if first == sign else Claimed.LOST

    def _give_and_read(self, sign: bytes) -> None:
        """Write a sign and wait until it, or an earlier one, is read. Raises MirrorError, KafkaException.

        A broker that was deposed unnoticed answers readers with an old log, but it acknowledges nothing.
        """
        if self._heard == NO_TOPIC:
            name = self._flow.control_topic
            for refused in create(self._admin, [own_topic(self._flow, name)])[0].values():
                raise FlowError(f"topic {name} can't be created on {self._flow.target.alias}: {refused.str()}")
        ControlWriter(self._flow).write({SIGN_KEY: sign})
        deadline = time.monotonic() + READ_TIMEOUT
        while self._reader.signs.first is None:
            if time.monotonic() > deadline:
                raise ClusterAway(self._flow.target.alias, f"{self._flow.control_topic} lacks a record just written")
            self._listen()
            time.sleep(0.05)

    def _try(self, what: Callable[[], object]) -> None:
        try:
            what()
            self.deaf = ""
        except (MirrorError, KafkaException) as error:
            self.deaf = str(error)
        except Exception as error:
            log.exception(BUG, extra={"flow": self.flow})
            self.deaf = f"{type(error).__name__}: {error}"

    def _hear(self) -> None:
        self._heard = self._listen()

    def _listen(self) -> Hashable:
        """What differs from one sign of life to the next. Raises MirrorError, KafkaException if that is not known."""
        topic, source = self._flow.control_topic, self._source
        if not source.reachable:
            raise ClusterAway(source.alias, source.reason or "no answer yet")
        refusal = self._admin.ids_now([topic])[1].get(topic)
        if refusal is not None and refusal.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return NO_TOPIC
        if refusal is not None:
            raise KafkaException(refusal)
        self._reader.read_to_end()  # a plan that only another version of mirror understands counts as not heard
        plan, signs = self._reader.plan, self._reader.signs
        return signs.count, signs.has_left, plan and (plan.service_id, plan.generation)

    def _tell(self) -> None:
        sign, said = self._reader.signs.last, "no service has given a sign of life yet"
        if sign is not None:
            gone = f"the service on {sign.host} has said goodbye"
            said = gone if self._reader.signs.has_left else f"the last sign of life is from {sign.host}"
        said = f"not known whether a service leads it: {self.deaf}" if self.deaf else said
        with self._telling:
            if not self._finished.is_set():
                self._status.stand_by(said)
        if self._logged.is_new(said):
            log.info("standby waits", extra={"flow": self.flow, "reason": said})
