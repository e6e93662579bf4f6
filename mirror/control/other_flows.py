"""Looks for conflicting flows on a flow's two clusters, before it copies and while it does.

conflicts.py explains the rules.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mirror.control.cluster_plans import UNCHECKED, ClusterPlans, control_topic
from mirror.control.conflicts import (
    ConflictingFlow,
    Key,
    Note,
    OtherFlow,
    OwnFlow,
    conflict,
    copied_before,
    copied_before_refusal,
    has_unknown_origin,
    is_relevant,
    lineage,
    old_copies,
    old_copies_refusal,
    refusal,
    rule,
    warning,
)
from mirror.control.control_topics import PLAN_KEY
from mirror.control.flow_leader import FlowLeader
from mirror.control.kept_configs import configs_from, keeper, kept_note
from mirror.control.plan import Lineage, Plan
from mirror.control.statement import Statement
from mirror.errors import Conflict, FlowError
from mirror.kafka.provenance import is_usable_id
from mirror.logs import OnChange
from mirror.model import Topic
from mirror.settings import Flow, Start
from mirror.timing import ALIVE, LIFE_SHOWS

log = logging.getLogger(__name__)

ROUNDS = 10  # most announcements in a row; each further one needs another flow to have changed its own meanwhile


@dataclass(frozen=True, slots=True)
class OthersView:
    """What the other flows mean for ours."""

    ours: OwnFlow
    conflicting_flows: tuple[ConflictingFlow, ...]
    lineage: Lineage
    doubts: tuple[Note, ...]  # what cannot be determined, and why
    old_copies: tuple[Note, ...] = ()  # records that would come back without the mark's header, or be copied again
    configs_kept_by: OtherFlow | None = None  # the flow that keeps ours from touching topic configurations

    @property
    def refusals(self) -> list[Note]:
        """The reasons why the flow would not run."""
        return [*self.old_copies, *self._conflicts]

    @property
    def _conflicts(self) -> list[Note]:
        return [refusal(self.ours, conflicting) for conflicting in self.conflicting_flows if conflicting.other.alive]

    @property
    def warnings(self) -> list[Note]:
        """Conflicting flows that are silent, and what cannot be determined."""
        silent = [
            warning(self.ours, conflicting) for conflicting in self.conflicting_flows if not conflicting.other.alive
        ]
        kept = [kept_note(self.ours, self.configs_kept_by)] if self.configs_kept_by else []
        return [*silent, *self.doubts, *kept]


class OtherFlows:
    """Reads the other flows' statements on both clusters; each look continues where the last one ended."""

    def __init__(self, flow: Flow, own: bool = True) -> None:
        """If `own`, read the flow's own control topic, too. A flow leader passes False: it reads that topic itself."""
        self._flow = flow
        sample = control_topic(flow.target.alias)
        self._source = ClusterPlans(flow.source, flow.group, "", sample)
        self._target = ClusterPlans(flow.target, flow.group, "" if own else flow.control_topic, sample)
        self._siblings: set[str] = set()
        self._watched: set[str] = set()  # names of silent flows that had LIFE_SHOWS to be heard

    def look(self, remotes: Mapping[str, str], plan: Plan | None = None, service_id: str = "") -> OthersView:
        """Find what prevents us from copying `remotes` (remote topics by source topic). Raises ClusterAway.

        `plan` is the newest plan on the flow's own control topic. `service_id` is our own.

        If a conflicting flow looks silent for the first time, only timestamps say so, and clocks differ. Then it looks
        again once a living flow would have been heard.
        """
        view = self._look(remotes, plan, service_id)
        silent = {each.other.name for each in view.conflicting_flows if not each.other.alive}
        if silent <= self._watched:
            return view
        time.sleep(LIFE_SHOWS)
        self._watched |= silent
        return self._look(remotes, plan, service_id)

    def _look(self, remotes: Mapping[str, str], plan: Plan | None, service_id: str) -> OthersView:
        self._source.read()
        self._target.read()
        own = Statement(plan.service_id, plan.generation, plan.stop, {}, plan.clusters, {}) if plan else None
        if self._flow.source.alias in self._target.control_topics:
            own = self._target.control_topics[self._flow.source.alias].statements.get(PLAN_KEY)
        ids = (self._source.cluster_id, self._target.cluster_id)
        clusters = ids if all(ids) else ()
        foreign = own is not None and own.service_id != service_id and _from_elsewhere(own, clusters)
        # One configuration may copy a cluster twice on purpose. An earlier run of it is known by its flow leader.
        self._siblings |= {service_id} | ({own.service_id} if own and not foreign else set())
        ours = self._ours(clusters, remotes, plan)
        others = [self._with_life(other) for other in self._others() if is_relevant(ours, other)]
        conflicting_flows = [ConflictingFlow(other, why) for other in others if (why := conflict(ours, other))]
        if own is not None and foreign and not own.stop:
            conflicting_flows.append(self._namesake(own))
        doubts = self._source.doubts + self._target.doubts
        doubts += [] if clusters else [Note(f"the clusters of flow {ours.name} do not report their ids", UNCHECKED)]
        doubts += [_older(ours, other) for other in others if other.alive and has_unknown_origin(ours, other)]
        return OthersView(
            ours,
            tuple(conflicting_flows),
            replace(lineage(ours, others), configs_from=configs_from(ours, others)),
            tuple(doubts),
            (*self._old_copies(ours), *self._copied_before(ours)),
            keeper(ours, others),
        )

    def _ours(self, clusters: tuple[str, ...], remotes: Mapping[str, str], plan: Plan | None) -> OwnFlow:
        flow, known = self._flow, plan.known if plan else {}
        # A plan with the mark has a topic with old copies only if the topic has begun at its end.
        resumed = {
            name
            for name in remotes.keys() & known
            if not (plan and plan.active_active and known[name].initial_partitions)
        }
        late = {name for name in remotes if _starts(flow, name, plan) == "latest"}
        not_from_end = resumed | (remotes.keys() - late)
        new = set() if flow.append_to_existing else not_from_end - known.keys()
        return OwnFlow(
            flow.source.alias,
            flow.target.alias,
            clusters,
            remotes,
            self._siblings,
            flow.active_active,
            not_from_end,
            resumed,
            flow.sync_topic_configs,
            new,
        )

    def reconfigure(self, flow: Flow) -> None:
        """Follow a changed configuration: a topic that it brings may begin elsewhere. Aliases and group stay."""
        self._flow = flow

    def key(self, service_id: str) -> Key:
        """Our own key."""
        return Key(service_id, self._target.cluster_id, self._flow.control_topic)

    def _others(self) -> Iterator[OtherFlow]:
        for cluster, at_source in ((self._target, False), (self._source, True)):
            for alias, topic in cluster.control_topics.items():
                if cluster is self._target and alias == self._flow.source.alias:
                    continue
                for statement, copies in topic.effective():
                    key = Key(statement.service_id, cluster.cluster_id, control_topic(alias))
                    yield OtherFlow(key, f"{alias}->{cluster.alias}", cluster.alias, at_source, statement, copies)

    def _old_copies(self, ours: OwnFlow) -> Iterator[Note]:
        """Of flows that have copied to our source without the mark; also of those that have ended."""
        for alias, topic in self._source.control_topics.items():
            for statement in topic.statements.values():
                if found := old_copies(ours, statement):
                    yield old_copies_refusal(ours, found, f"{alias}->{self._flow.source.alias}")

    def _copied_before(self, ours: OwnFlow) -> Iterator[Note]:
        """Of flows to our target that have ended, or are silent. One that lives is in conflict with ours."""
        for alias, topic in self._target.control_topics.items():
            plan = topic.statements.get(PLAN_KEY)
            if plan is None or alias == self._flow.source.alias:
                continue
            found = copied_before(ours, plan)
            if found and (plan.stop or self._target.silence(alias) >= ALIVE):
                yield copied_before_refusal(ours, found, f"{alias}->{self._flow.target.alias}")

    def _with_life(self, other: OtherFlow) -> OtherFlow:
        cluster = self._source if other.at_source else self._target
        alias = other.name.removesuffix(f"->{cluster.alias}")
        return replace(other, alive=cluster.silence(alias) < ALIVE, by_successor=cluster.lives_by_successor(alias))

    def _namesake(self, own: Statement) -> ConflictingFlow:
        """The conflict that the plan on our control topic belongs to a flow of our name that copies another cluster."""
        alias, target = self._flow.source.alias, self._flow.target.alias
        key = Key(own.service_id, self._target.cluster_id, self._flow.control_topic)
        alive = self._target.silence(alias) < ALIVE
        other = OtherFlow(key, self._flow.name, target, False, own, True, alive)
        return ConflictingFlow(
            other, f"that flow copies another cluster that has the alias {alias}, too: {own.clusters[0]}"
        )


def _starts(flow: Flow, topic: str, plan: Plan | None) -> Start:
    """Where `plan.merge_initial_partitions` and `start_offsets.find_starts` begin with a topic that has no position."""
    own = flow.topic_settings.get(topic)
    comes_later = plan is not None and topic not in plan.known
    return "earliest" if comes_later and (own is None or own.start is None) else flow.of_topic(topic).start


def _from_elsewhere(plan: Statement, clusters: tuple[str, ...]) -> bool:
    return bool(plan.clusters and clusters) and plan.clusters[:1] != clusters[:1]


def _older(ours: OwnFlow, other: OtherFlow) -> Note:
    problem = (
        f"an older version of mirror runs flow {other.name}, and does not publish which clusters its records come from"
    )
    return Note(problem, UNCHECKED)


class ConflictGuard:
    """Lets a flow copy only while no other flow conflicts with it.

    Call `permit` before anything is created on the target, and `agree` before each plan.
    """

    def __init__(self, flow: Flow, flow_leader: FlowLeader) -> None:
        self._flow = flow
        self._flow_leader = flow_leader
        self._others = OtherFlows(flow, own=False)
        self._view: OthersView | None = None
        self._warnings = OnChange()

    def reconfigure(self, flow: Flow) -> None:
        """Follow a changed configuration."""
        self._flow = flow
        self._others.reconfigure(flow)

    @property
    def configs_kept_by(self) -> str:
        """The name of the flow that keeps ours from touching topic configurations; "" if none does."""
        other = self._view.configs_kept_by if self._view else None
        return other.name if other else ""

    def permit(self, remotes: Mapping[str, str]) -> None:
        """Look at the other flows. Raises Conflict if one is in the way, and what FlowLeader.stop_own_tasks raises."""
        self._look(remotes, announced=False)

    def agree(self, topics: dict[str, Topic]) -> Lineage:
        """Announce what our plan lacks of `topics`, then look at the other flows again. Returns the plan's lineage.

        Raises Conflict, ClusterAway, FlowError, and what FlowLeader.stop_own_tasks raises.
        """
        remotes = {name: topic.remote for name, topic in topics.items()}
        announced: Lineage | None = None
        for _ in range(ROUNDS):
            view = self._view
            assert view is not None
            found = view.lineage.of(set(remotes.values()))
            if self._flow_leader.has_planned(remotes, found) or (announced and announced.covers(found)):
                return found
            announced = found
            self._flow_leader.announce(topics, found)
            self._look(remotes, announced=True)
        raise FlowError(f"flow {self._flow.name}: other flows keep changing where its topics come from")

    def _look(self, remotes: Mapping[str, str], announced: bool) -> None:
        flow_leader = self._flow_leader
        self._view = view = self._others.look(remotes, flow_leader.control.plan, flow_leader.service_id)
        ours = view.ours
        if ours.clusters and ours.clusters[0] == ours.clusters[1]:
            flow_leader.stop_own_tasks()
            raise Conflict(f"flow {ours.name}: source and target are the same cluster: correct bootstrap.servers", True)
        if self._flow.active_active and not all(map(is_usable_id, ours.clusters or [""])):
            flow_leader.stop_own_tasks()
            said = "active_active: true needs a cluster id without a comma of both clusters, and they report none"
            raise FlowError(f"flow {ours.name}: {said}", blocked=True)
        if view.old_copies:
            flow_leader.stop_own_tasks()
            raise Conflict(str(view.old_copies[0]), True)
        self._warn(view)
        # Before anything is announced, only whether we run: the plan may lack a topic for good, if it is refused.
        new = not flow_leader.has_planned(*((remotes, view.lineage) if announced else ({}, view.lineage.of(()))))
        ruling = rule(self._others.key(flow_leader.service_id), view.conflicting_flows, new, announced)
        if ruling:
            if ruling.gives_way:
                flow_leader.stop_own_tasks()
            raise Conflict(str(refusal(ours, ruling.conflicting)), ruling.gives_way)

    def _warn(self, view: OthersView) -> None:
        """Log each warning once, and again if it went away and came back."""
        for note in self._warnings.added(view.warnings):
            log.warning("another flow may conflict", extra={"flow": self._flow.name, "reason": str(note)})
