"""Keeps the positions of topics that left the plan: a broker removes a position that is not committed for long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from confluent_kafka import KafkaException

from mirror.control.plan import RENEW_INTERVAL
from mirror.errors import ClusterAway, MirrorError, ProducerFenced
from mirror.kafka.clients import group_reader
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.target.fencing import commit_as_owner
from mirror.target.position_reader import PositionReader
from mirror.text import BUG

log = logging.getLogger(__name__)

RETENTION = "offsets.retention.minutes"
LET_GO_WITHIN = 2  # transaction time-outs in which a task has let a partition go
SHARE = 10  # how often a position is committed in the time after which a broker would remove it


class Renewal:
    """Knows how often a flow's positions are committed again, and does it for retired topics, in a thread."""

    def __init__(self, flow: Flow) -> None:
        self.interval = RENEW_INTERVAL  # seconds
        self.retired: Mapping[str, Topic] = {}
        self._flow = flow
        self._target = ClusterAdmin(flow.target)
        self._due = time.monotonic()  # at once, because nobody knows when they were last committed
        self._thread: threading.Thread | None = None
        self._since: Mapping[str, float] = {}  # when each retired topic was first seen here, monotonic
        self._guessed = ""

    def ask(self) -> None:
        """Learn the interval from the target. Raises ClusterAway."""
        self.interval, guessed = renew_interval(self._flow, self._target)
        if guessed and guessed != self._guessed:
            where = {"flow": self._flow.name, "seconds": int(self.interval), "reason": guessed}
            log.warning("for how long the target keeps positions can't be told, an interval is assumed", extra=where)
        self._guessed = guessed

    def renew(self) -> None:
        """Begin to commit the positions of retired topics again, if that is due."""
        now, running = time.monotonic(), self._thread is not None and self._thread.is_alive()
        self._since = {name: self._since.get(name, now) for name in self.retired}
        ready = {name: topic for name, topic in self.retired.items() if self._is_let_go(now - self._since[name])}
        if not ready or running or now < self._due:
            return
        self._due = now + self.interval
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True, name="renewal")
        self._thread.start()

    def _is_let_go(self, retired_for: float) -> bool:
        """True if no task copies a topic any more, `retired_for` seconds after it has left the plan.

        With transactions that does not matter: a renewal fences the task, or the task fences the renewal. Without them,
        a renewal could put an older position over one that a task commits.
        """
        return self._flow.exactly_once or retired_for > LET_GO_WITHIN * self._flow.transaction_timeout

    def _run(self, topics: Mapping[str, Topic]) -> None:
        try:
            done = sum(1 for _ in renew(self._flow, topics, lambda name: name in self.retired))
        except MirrorError as error:
            log.debug("positions can't be renewed", extra={"flow": self._flow.name, "reason": str(error)})
        except Exception:  # it must not end the copying, and the next renewal tries again
            log.exception(BUG, extra={"flow": self._flow.name})
        else:
            log.info(
                "positions of topics that are left out renewed", extra={"flow": self._flow.name, "partitions": done}
            )


def renew_interval(flow: Flow, target: ClusterAdmin) -> tuple[float, str]:
    """Seconds between two commits of a position, and why that is a guess; "" if the target's own setting is known.

    Raises ClusterAway.
    """
    try:
        minutes = float(target.broker_config(target.brokers()[0])[RETENTION])
    except ClusterAway:
        raise
    except KafkaException as error:
        return RENEW_INTERVAL, str(error.args[0].str())
    except (KeyError, ValueError, IndexError):
        return RENEW_INTERVAL, f"{flow.target.alias} does not tell {RETENTION}"
    return interval_of(minutes), ""


def interval_of(retention_minutes: float) -> float:
    """Seconds between two commits of a position on a target that keeps it for so many minutes. Pure."""
    return min(RENEW_INTERVAL, retention_minutes * 60 / SHARE)


def renew(
    flow: Flow, topics: Mapping[str, Topic], is_wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[Partition]:
    """Commit the positions of these topics again as they are. Yields each partition that is done.

    Each commit uses the partition's own transactional id. So a task that takes the partition over meanwhile fences us.
    `is_wanted` is asked before each commit: a topic may be in the plan again by then.
    """
    wanted = [(Partition(name, n), topic) for name, topic in sorted(topics.items()) for n in range(topic.partitions)]
    if not wanted:
        return
    with (
        closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions,
        closing(group_reader(flow.target, flow.group, "read_committed")) as member,
    ):
        for partition, topic in wanted:
            if not is_wanted(partition.topic):
                continue
            problem = ""
            try:
                commit_as_owner(flow, partition, topic, positions, member, lambda found: found)
            except ProducerFenced:  # a task copies the partition now, and keeps its position
                continue
            except MirrorError as error:
                problem = str(error)
            if problem:
                where = {"flow": flow.name, "topic": partition.topic, "partition": partition.partition}
                log.debug("position of a topic that is left out can't be renewed", extra={**where, "reason": problem})
            else:
                yield partition
