"""What the leader of a flow does beside the copying, each in a thread of its own."""

from __future__ import annotations

from mirror.control.control_reader import ControlReader
from mirror.groups.group_rounds import GroupRounds, Round
from mirror.groups.heartbeat_sender import HeartbeatSender
from mirror.groups.map_cleaner import MapCleaner
from mirror.groups.mirrormaker_offsets import MirrorMakerOffsets
from mirror.settings import Flow
from mirror.status.flow_status import FlowStatus
from mirror.text import plural
from mirror.topics.acl_rounds import AclRound, AclRounds
from mirror.topics.config_rounds import ConfigRound, ConfigRounds
from mirror.topics.settled import Settled, settled_topics
from mirror.topics.source_retention import SourceRetention


class Sidelines:
    """Starts and stops all of it together, and puts what it finds into the flow's status."""

    def __init__(self, flow: Flow, status: FlowStatus, control: ControlReader) -> None:
        self.mirrormaker_offsets = MirrorMakerOffsets(flow)
        self._status = status
        self._control = control
        self._map_cleaner = MapCleaner(flow)
        self._group_rounds = GroupRounds(flow, self._on_group_round)
        self._heartbeats = HeartbeatSender(flow)
        self._config_rounds = ConfigRounds(flow, self._settled, self._on_config_round)
        self._acl_rounds = AclRounds(flow, self._settled, self._on_acl_round)
        self._retention = SourceRetention(flow, status.topics, status.keep_retention)

    def start(self, renew_interval: float) -> None:
        """Begin what has not begun. Call it again and again while the flow is led.

        What is committed and stays the same is committed again after `renew_interval` seconds.
        """
        self._map_cleaner.start()
        self._group_rounds.start(renew_interval)
        self._heartbeats.start()
        self.mirrormaker_offsets.start()
        self._config_rounds.start()
        self._acl_rounds.start()
        self._retention.start()

    def stop(self) -> None:
        """End all of it. The status no longer says what only a leader knows."""
        self._map_cleaner.stop()
        self._group_rounds.stop()
        self._heartbeats.stop()
        self.mirrormaker_offsets.stop()
        self._config_rounds.stop()
        self._acl_rounds.stop()
        self._retention.stop()
        self._status.keep_retention({})
        self._status.groups = self._status.coverage = self._status.verified = None

    def _settled(self) -> Settled:
        """The topics whose remote topics are certainly their copies."""
        plan = self._control.plan
        return settled_topics(plan.topics if plan else {}, (each.report for each in self._status.partitions()))

    def _on_group_round(self, found: Round) -> None:
        self._status.groups = found

    def _on_config_round(self, found: ConfigRound) -> None:
        self._status.configs = found
        if found.altered:
            first, count = found.altered[0], plural(len(found.altered), "remote topic")
            changes = ", ".join(map(str, first.changes))
            self._status.remember(f"the configuration of {count} was altered, e.g. {first.remote}: {changes}")

    def _on_acl_round(self, found: AclRound) -> None:
        self._status.acls = found
