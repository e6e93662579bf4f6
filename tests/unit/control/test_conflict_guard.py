"""A flow announces what it is going to copy, and then looks once more at what others have announced meanwhile."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control import other_flows
from mirror.control.conflicts import ConflictingFlow, Key, Note, OwnFlow, lineage
from mirror.control.control_topics import PLAN_KEY
from mirror.control.next_plan import merge_initial_partitions
from mirror.control.observed_topics import ControlTopic
from mirror.control.other_flows import ConflictGuard, OthersView
from mirror.control.plan import Lineage, Plan
from mirror.control.statement import Statement
from mirror.errors import Conflict, FlowError
from mirror.model import Topic
from mirror.settings import Flow, Start, TopicSettings
from tests.unit.control.test_conflicts import KEYS, conflicting
from tests.unit.test_naming import flow

TOPICS = {"t": Topic("primary.t", "id", 1, 1)}


class World:
    """The flow leader, and what it sees of others at each look."""

    def __init__(self, key: Key) -> None:
        self.service_id = "us"
        self.control = SimpleNamespace(plan=None)
        self.said: list[str] = []
        self.conflicting_flows: list[ConflictingFlow] = []
        self.meanwhile: list[ConflictingFlow] = []  # what others announce while we do
        self.clusters: tuple[str, ...] = ("id-a", "id-b")
        self.old_copies: list[Note] = []
        self.planned: set[str] | None = None  # the topics of our plan, if it runs
        self._key = key

    def has_planned(self, remotes: dict[str, str], _: Lineage) -> bool:
        return self.planned is not None and remotes.keys() <= self.planned

    def announce(self, _: object, __: Lineage) -> None:
        self.said.append("announced")
        self.conflicting_flows = self.meanwhile

    def stop_own_tasks(self) -> None:
        self.said.append("withdrawn")

    def look(self, remotes: dict[str, str], _: Plan | None, __: str) -> OthersView:
        self.said.append("looked")
        ours = OwnFlow("primary", "backup", self.clusters, remotes)
        return OthersView(ours, tuple(self.conflicting_flows), lineage(ours, ()), (), tuple(self.old_copies))

    def key(self, _: str) -> Key:
        return self._key


def guard(world: World, monkeypatch: pytest.MonkeyPatch, marked: bool = False) -> ConflictGuard:
    monkeypatch.setattr(other_flows, "OtherFlows", lambda *_, **__: world)
    any_: Any = world
    made = ConflictGuard(flow(active_active=marked), any_)
    made.permit({"t": "primary.t"})
    return made


def test_who_is_alone_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(KEYS[0])
    found = guard(world, monkeypatch).agree(TOPICS)
    assert found == Lineage(("id-a", "id-b"), {"primary.t": ("id-a",)})
    assert world.said == ["looked", "announced", "looked"]


@pytest.mark.parametrize(("own", "others", "gives_way"), [(0, 1, False), (1, 0, True)])
def test_of_two_that_announce_at_once_neither_copies_at_once(
    monkeypatch: pytest.MonkeyPatch, own: int, others: int, gives_way: bool
) -> None:
    """One of them waits until the other has withdrawn."""
    world = World(KEYS[own])
    made = guard(world, monkeypatch)
    world.meanwhile = [conflicting(KEYS[others], copies=False)]
    with pytest.raises(Conflict) as raised:
        made.agree(TOPICS)
    assert raised.value.gave_way is gives_way
    assert world.said == ["looked", "announced", "looked", *(["withdrawn"] if gives_way else [])]


def test_a_flow_that_runs_gives_way_to_no_announcement_for_a_topic_that_its_plan_never_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target refuses it, so each look finds it anew. What the next plan really adds is judged before that plan."""
    world = World(KEYS[1])
    made = guard(world, monkeypatch)
    world.planned, world.conflicting_flows = {"t"}, [conflicting(KEYS[0], copies=False)]
    made.permit({"t": "primary.t", "refused": "primary.refused"})
    made.agree(TOPICS)
    world.meanwhile = world.conflicting_flows
    with pytest.raises(Conflict) as raised:
        made.agree({**TOPICS, "more": Topic("primary.more", "id", 1, 1)})
    assert raised.value.gave_way
    world.planned = None
    with pytest.raises(Conflict):
        made.permit({"t": "primary.t"})


@pytest.mark.parametrize("clusters", [(), ("id-a", "a,b")])
def test_with_the_mark_nothing_is_copied_without_ids_that_the_header_can_have(
    monkeypatch: pytest.MonkeyPatch, clusters: tuple[str, ...]
) -> None:
    world = World(KEYS[0])
    world.clusters = clusters
    guard(world, monkeypatch)
    with pytest.raises(FlowError, match="active_active: true needs a cluster id") as raised:
        guard(world, monkeypatch, marked=True)
    assert raised.value.blocked and world.said[-1] == "withdrawn"


def test_nothing_is_copied_while_old_copies_would_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(KEYS[0])
    world.old_copies = [Note("t would come back", "set start: latest")]
    with pytest.raises(Conflict, match="t would come back; set start: latest") as raised:
        guard(world, monkeypatch, marked=True)
    assert raised.value.gave_way and world.said == ["looked", "withdrawn"]


class Seen:
    """What has been read from one cluster: on the source, a flow back that ended before it had the mark."""

    def __init__(self, cluster: Any, *_: object) -> None:
        self.alias, self.cluster_id = cluster.alias, f"id-{cluster.alias}"
        back = Statement("them", 1, True, {"t": "t"}, ("id-backup", "id-primary"), {}, old=frozenset({"t"}))
        said = {"backup": ControlTopic(statements={PLAN_KEY: back})}
        self.control_topics = said if cluster.alias == "primary" else {}
        self.doubts: list[Note] = []

    def read(self) -> None:
        pass


def test_a_topic_that_a_reload_brings_may_begin_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a topic begins is in its own settings, which change with the topics of the flow."""
    monkeypatch.setattr(other_flows, "ClusterPlans", Seen)
    any_: Any = World(KEYS[0])
    marked: Flow = flow(active_active=True, replication_policy="identity")
    made = ConflictGuard(marked, any_)
    with pytest.raises(Conflict, match="records of t on primary would come back to backup"):
        made.permit({"t": "t"})
    late = TopicSettings(None, "latest", None, None, None)
    made.reconfigure(replace(marked, topic_settings={"t": late}))
    made.permit({"t": "t"})
    made.reconfigure(marked)
    with pytest.raises(Conflict, match="would come back"):
        made.permit({"t": "t"})


LATE = TopicSettings(None, "latest", None, None, None)
BACK = flow(active_active=True, replication_policy="identity")
T = {"t": Topic("t", "id", 2, 2)}
OTHER = Plan("us", 1, {"u": Topic("u", "id", 1, 1)}, (), active_active=True)
RETIRED = Plan("us", 1, {}, (), retired=T, active_active=True)


@pytest.mark.parametrize(
    ("plan", "own", "start", "remedy"),
    [
        # No plan: the flow's own start counts, too.
        (None, None, "latest", ""),
        (None, "latest", "earliest", ""),
        (None, None, "earliest", "set start: latest for t"),
        (None, None, 1_700_000_000_000, "set start: latest for t"),
        (None, "earliest", "latest", "set start: latest for t"),
        # The plan lacks the topic: it begins at its beginning, unless it has a start of its own.
        (OTHER, "latest", "earliest", ""),
        (OTHER, None, "latest", "set start: latest for t"),
        (OTHER, 1_700_000_000_000, "latest", "set start: latest for t"),
        (OTHER.stopped(), None, "latest", "set start: latest for t"),
        # The plan has begun with the topic at its end.
        (replace(OTHER, topics=T), None, "latest", ""),
        (replace(OTHER, topics=T), None, "earliest", "set start: latest for t"),
        (RETIRED, "latest", "earliest", ""),
        # It has not, or nobody knows: there may be positions before the copies.
        (replace(OTHER, topics={"t": Topic("t", "id", 2, 0)}), "latest", "latest", "give primary a new alias"),
        (replace(OTHER, topics=T, active_active=False), "latest", "latest", "give primary a new alias"),
        (replace(RETIRED, active_active=False), "latest", "latest", "give primary a new alias"),
    ],
)
def test_only_a_topic_that_begins_at_its_end_is_copied_where_old_copies_are(
    monkeypatch: pytest.MonkeyPatch, plan: Plan | None, own: Start | None, start: Start, remedy: str
) -> None:
    """The guard and the next plan agree on where a topic begins."""
    monkeypatch.setattr(other_flows, "ClusterPlans", Seen)
    any_: Any = World(KEYS[0])
    any_.control.plan = plan
    settings = {} if own is None else {"t": replace(LATE, start=own)}
    back = replace(BACK, start=start, topic_settings=settings)
    if remedy:
        with pytest.raises(Conflict, match=remedy):
            ConflictGuard(back, any_).permit({"t": "t"})
    else:
        ConflictGuard(back, any_).permit({"t": "t"})
        assert (
            back.of_topic("t").start == "latest"
            and merge_initial_partitions(T, plan, settings)["t"].initial_partitions == 2
        )
