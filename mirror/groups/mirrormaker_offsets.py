"""Writes the flow's positions as MirrorMaker 2 keeps its own. A MirrorMaker that is started later goes on from them.

KIP-618 does the same for a "hard downgrade": a worker first commits the offsets, and then writes them a second time.
The positions are not written in the transaction of the records, because a MirrorMaker without exactly-once reads what
is not committed. If the transaction is aborted, that MirrorMaker would pass over records that nobody has copied.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import closing

from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.errors import MirrorError
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.own_topic_producer import BY_KEY
from mirror.kafka.topic_ids import KnownIds
from mirror.logs import OnChange
from mirror.model import Partition, Position, Topic, remote_partitions
from mirror.settings import Flow
from mirror.target import connect_offsets
from mirror.target.position_reader import PositionReader
from mirror.text import BUG

log = logging.getLogger(__name__)

INTERVAL = 1.0  # seconds between two rounds
SHARE = 4  # after a slow round, the pause is this many times as long as the round
END_TIMEOUT = 5.0  # seconds in which the last round of the thread has to end

Topics = Mapping[str, Topic]  # by source topic


class PositionWriter:
    """Writes positions in MirrorMaker's form. Each time it writes only those that have changed since it wrote them."""

    def __init__(self, flow: Flow) -> None:
        self._connector, self._cluster = flow.mirrormaker_offsets.connector, flow.source.alias
        self._topic = flow.connect_offsets_topic
        self._flow = flow
        self._target = ClusterAdmin(flow.target)
        self._positions = PositionReader(flow.target, flow.group, flow.control_topic)
        self._writer = OwnTopicWriter(flow.target, self._topic, BY_KEY)
        self._known = KnownIds()
        self._written: dict[Partition, Position] = {}

    def close(self) -> None:
        """End the clients, and give up what is not written yet."""
        self._writer.close()
        self._positions.close()

    def write_committed(self, topics: Topics) -> int:
        """Write the positions that are committed now. Wait for no transaction. Returns how many were written.

        Raises ClusterAway or PartitionError.
        """
        remotes = remote_partitions(topics)
        found = self._positions.hints(remotes.values(), set())
        return self._write(topics, {each: found.get(remote) for each, remote in remotes.items()})

    def write_final(self, topics: Topics) -> int:
        """Load all positions, which waits for pending transactions, and write them. Returns how many were written.

        Raises ClusterAway or PartitionError.
        """
        remotes = remote_partitions(topics)
        found = self._positions.load_all(remotes.values()) if remotes else {}
        return self._write(topics, {each: found[remote] for each, remote in remotes.items()})

    def _write(self, topics: Topics, found: Mapping[Partition, Position | None]) -> int:
        topic_id = self._target.ids_now([self._topic])[0].get(self._topic)
        if topic_id is not None and self._known.is_another(self._topic, topic_id):
            self._written = {}  # the topic was deleted and created again
        due = changed(topics, found, self._written)
        keys = {connect_offsets.key(self._connector, self._cluster, each): each for each in due}
        records = {key: connect_offsets.value(due[each].offset) for key, each in keys.items()}
        self._writer.write(records, lambda key: self._written.update({keys[key]: due[keys[key]]}))
        return len(due)


def changed(
    topics: Topics, found: Mapping[Partition, Position | None], written: Mapping[Partition, Position]
) -> dict[Partition, Position]:
    """The positions to write: mirror's own, in the topics of the plan, and new or further than what was written.

    A position that goes back is left out: a stale coordinator of the group may give an old one.
    """
    due: dict[Partition, Position] = {}
    for partition, position in found.items():
        if position is None or not is_ours(position, topics[partition.topic]):
            continue
        before = written.get(partition)
        same = before is not None and before.topic_id == position.topic_id
        if before is None or not same or before.progress < position.progress:
            due[partition] = position
    return due


def is_ours(position: Position, topic: Topic) -> bool:
    """True if mirror has committed the position for these topics, by their ids.

    The position of an older version has no id of the remote topic. It counts as well.
    """
    return position.topic_id == topic.topic_id != "" and position.remote_id in ("", topic.remote_id)


class MirrorMakerOffsets(FlowLeaderPart):
    """Writes positions about once a second in a thread of its own, and once more after the tasks have ended.

    Only a flow leader starts it. `topics` are those of the newest plan, the retired ones included.
    """

    def __init__(self, flow: Flow) -> None:
        self.topics: Topics = {}
        super().__init__("mirrormaker offsets", flow)
        self._began = False
        self._why = OnChange()  # used by the thread alone

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.mirrormaker_offsets.enabled

    def start(self) -> None:
        """Begin, unless it has begun or is not wanted. Call it again and again while the flow is led."""
        self._began = self._began or self.wanted
        super().start()

    def finish(self) -> None:
        """Write all positions once more, after `stop` and after the tasks have ended. It logs whether that succeeds."""
        if not self._began or not self.wanted:
            return
        where: dict[str, object] = {"flow": self._flow.name, "topic": self._flow.connect_offsets_topic}
        reason = "the last round has not ended"
        if self._thread.join(END_TIMEOUT):  # if two threads wrote at once, an older position could come last
            try:
                with closing(PositionWriter(self._flow)) as writer:
                    count = writer.write_final(self.topics)
            except MirrorError as error:
                reason = str(error)
            except Exception as error:
                log.exception(BUG, extra=where)
                reason = f"{type(error).__name__}: {error}"
            else:
                log.info("positions written for MirrorMaker", extra={**where, "partitions": count})
                return
        said = "last positions not written for MirrorMaker: use mirror hand-back"
        log.warning(said, extra={**where, "reason": reason})

    def _work(self, stopping: threading.Event) -> None:
        with closing(PositionWriter(self._flow)) as writer:
            while not stopping.is_set():
                began = time.monotonic()
                self._round(writer)
                stopping.wait(max(INTERVAL, SHARE * (time.monotonic() - began)))

    def _round(self, writer: PositionWriter) -> None:
        where = {"flow": self._flow.name, "topic": self._flow.connect_offsets_topic}
        try:
            writer.write_committed(self.topics)
        except MirrorError as error:
            if self._why.is_new(str(error)):
                said = {**where, "reason": str(error)}
                log.warning("positions can't be written for MirrorMaker now, the next round tries again", extra=said)
        else:
            if self._why.clear():
                log.info("positions are written for MirrorMaker again", extra=where)
