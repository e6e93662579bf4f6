"""What a flow leader does beside the copying: consumer groups, topic configurations, ACLs, the canary and the like."""

from __future__ import annotations

from mirror.control.control_reader import ControlReader
from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.groups.group_rounds import GroupRounds, Round
from mirror.groups.heartbeat_sender import HeartbeatSender
from mirror.groups.map_cleaner import MapCleaner
from mirror.groups.mirrormaker_offsets import MirrorMakerOffsets
from mirror.service.canary import Canary
from mirror.settings import Flow
from mirror.status.canary import CanaryStatus
from mirror.status.flow_status import FlowStatus
from mirror.text import plural
from mirror.topics.acl_rounds import AclRound, AclRounds
from mirror.topics.config_rounds import ConfigRound, ConfigRounds
from mirror.topics.source_retention import SourceRetention
from mirror.topics.trusted import Trusted, trusted_topics


class Sidelines:
    """Starts and stops these parts together, and puts what they find into the flow's status.

    Only the flow's own thread calls it. `mirrormaker_offsets.finish` is the exception.
    """

    def __init__(self, flow: Flow, status: FlowStatus, control: ControlReader) -> None:
        """`control` has the newest plan."""
        self._status = status
        self._control = control
        self._group_rounds = GroupRounds(flow, self._on_round)
        self.mirrormaker_offsets = MirrorMakerOffsets(flow)
        self._config_rounds = ConfigRounds(flow, self._trusted, self._on_config_round)
        self._acl_rounds = AclRounds(flow, self._trusted, self._on_acl_round)
        self._canary = Canary(flow, status.topics, self._on_canary)
        self._parts: tuple[FlowLeaderPart, ...] = (
            MapCleaner(flow),
            self._group_rounds,
            HeartbeatSender(flow),
            self._canary,
            self.mirrormaker_offsets,
            self._config_rounds,
            self._acl_rounds,
            SourceRetention(flow, status.topics, status.keep_retention),
        )

    def start(self, renew_interval: float) -> None:
        """Begin what has not begun. Call it again and again while the flow is led.

        A group's offset that stays the same is committed again after `renew_interval` seconds.
        """
        self._group_rounds.renew_interval = renew_interval
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        """Tell all parts to end. Take out of the status what only a flow leader knows."""
        for part in self._parts:
            part.stop()
        self._status.keep_retention({})
        self._status.groups = self._status.coverage = self._status.verified = self._status.canary = None
        self._status.retired, self._status.refused = None, ()
        self._status.configs = self._status.acls = None

    def reconfigure(self, flow: Flow) -> None:
        """Begin all parts anew with these settings, at the next `start`."""
        for part in self._parts:
            part.reconfigure(flow)
        # A part that is still wanted soon reports what it finds.
        if not self._group_rounds.wanted:
            self._status.groups = None
        if not self._config_rounds.wanted:
            self._status.configs = None
        if not self._acl_rounds.wanted:
            self._status.acls = None
        if not self._canary.wanted:
            self._status.canary = None

    def leave_configs_to(self, flow: str) -> None:
        """Leave topic configurations alone while the flow with this name keeps them; "" if none does."""
        self._config_rounds.kept_by = flow

    def wants_look(self) -> bool:
        """True, once, if the source has a topic of one of the parts, and the plan lacks it."""
        return self._canary.wants_look()

    def _trusted(self) -> Trusted:
        """The topics whose remote topics are certainly their copies."""
        plan = self._control.plan
        return trusted_topics(plan.topics if plan else {}, (each.report for each in self._status.partitions()))

    def _on_round(self, found: Round) -> None:
        self._status.groups = found

    def _on_config_round(self, found: ConfigRound) -> None:
        self._status.configs = found
        if found.altered:
            first, count = found.altered[0], plural(len(found.altered), "remote topic")
            changes = ", ".join(map(str, first.changes))
            self._status.remember(f"the configuration of {count} was altered, e.g. {first.remote}: {changes}")

    def _on_canary(self, found: CanaryStatus) -> None:
        self._status.canary = found

    def _on_acl_round(self, found: AclRound) -> None:
        self._status.acls = found
