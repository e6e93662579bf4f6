"""Writes MirrorMaker's heartbeats to the source. The flow copies them to the target like other records."""

from __future__ import annotations

import threading
import time

from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.groups.heartbeats import Heartbeat
from mirror.kafka.source_topic import SourceTopic
from mirror.settings import Flow
from mirror.template import HEARTBEATS


class HeartbeatSender(FlowLeaderPart):
    """Sends a heartbeat each `heartbeats.interval`, in a thread of its own. Only the flow leader has one."""

    def __init__(self, flow: Flow) -> None:
        super().__init__("heartbeats", flow)

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.heartbeats.enabled

    def _work(self, stopping: threading.Event) -> None:
        flow = self._flow
        topic = SourceTopic(flow, HEARTBEATS, {"cleanup.policy": "compact"}, "heartbeats")
        while not stopping.is_set():
            beat = Heartbeat(flow.source.alias, flow.target.alias, int(time.time() * 1000))
            topic.write(beat.key(), beat.value())
            stopping.wait(flow.heartbeats.interval)
        topic.close()
