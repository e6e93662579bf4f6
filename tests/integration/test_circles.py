"""Flows of configurations that don't know each other: those that don't go together are refused, and say so."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Producer

from mirror.config.load import load
from mirror.control import cluster_plans
from mirror.control.cluster_plans import ClusterPlans
from mirror.control.conflicts import Note
from mirror.control.other_flows import OtherFlows, OthersView
from mirror.demo.brokers import LocalCluster
from mirror.kafka.clients import internal_consumer
from mirror.settings import Cluster
from mirror.timing import ALIVE
from tests.harness import configuration, oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.load import Made, produce
from tests.harness.service import FLOW_BLOCKED, Event, Service
from tests.harness.together import in_turn, together
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

GOES_ON, DOUBTS = "flow recovered", "another flow may conflict"
SETTLED = 5.0  # seconds in which a circle would have copied each record some thousand times
IDENTITY = {"replication_policy": "identity"}


def cluster_id(bootstrap: str) -> str:
    return str(topics.admin(bootstrap).list_topics(timeout=PATIENCE).cluster_id)


def settings(*flows: tuple[str, LocalCluster, str, LocalCluster, str, Mapping[str, Any]]) -> configuration.Settings:
    """One configuration of flows: alias and source, alias and target, the topic, and more keys."""
    each = [
        configuration.one_flow(source.bootstrap, target.bootstrap, [topic], alias=a, target_alias=b, flow=more)
        for a, source, b, target, topic, more in flows
    ]
    return {**configuration.together(*each), "spark": {"master": f"local[{len(flows)}]"}}


def numbers(name: str, count: int) -> list[Made]:
    return [Made(None, f"{name} {number}".encode()) for number in range(count)]


def values(cluster: LocalCluster, topic: str, partition: int = 0) -> list[str]:
    if not topics.partitions(cluster.bootstrap, topic):
        return []
    return [(record.value or b"").decode() for record in oracle.read(cluster.bootstrap, topic)[partition]]


def has(cluster: LocalCluster, topic: str, wanted: list[str]) -> bool:
    return values(cluster, topic) == wanted


def texts(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def refused(service: Service, flow: str, other: str, why: str) -> Event:
    """The one event of a service that refuses `flow`, with both names."""

    def found() -> list[Event]:
        return [e for e in service.find(FLOW_BLOCKED, flow=flow) if "conflicts with" in e["reason"]]

    event = service.wait_for(f"{flow} is refused", found)[0]
    assert event["reason"].startswith(f"flow {flow} conflicts with flow {other} ("), event
    assert why in event["reason"] and "stop one of the two" in event["reason"], event
    assert len(found()) == 1, "said more than once"
    return event


def settle(service: Service) -> None:
    """Wait as long as a circle would need to show."""
    settled = time.monotonic() + SETTLED
    service.wait_for("it settles", lambda: time.monotonic() > settled)


def state(service: Service, a: str, b: str) -> str:
    labels = {"source": a, "target": b}
    return next(
        s.labels["state"]
        for s in service.metrics()
        if s.name == "mirror_flow_state" and s.value == 1 and labels.items() <= s.labels.items()
    )


def test_flows_that_do_not_go_together(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The failback waits for a minute, and the others come meanwhile.

    The flow that meets another is between other clusters than the failback, which would doubt its strange one, too.
    """
    east, west = source_cluster, target_cluster
    with LocalCluster("third", tmp_path) as third:
        together(
            partial(failback_waits_and_the_first_flow_does_not_come_back, east, west, tmp_path),
            in_turn(
                partial(a_running_flow_that_meets_another_stops_until_that_one_is_gone, third, west, tmp_path),
                partial(of_flows_that_start_at_once_one_of_each_two_goes_on, east, west, third, tmp_path),
                partial(a_circle_of_three_clusters_is_not_closed, east, west, third, tmp_path),
            ),
        )


def failback_waits_and_the_first_flow_does_not_come_back(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Two services copy each other's topic under its own name: whoever comes second waits."""
    one, two, topic = "east" + uuid.uuid4().hex[:4], "west" + uuid.uuid4().hex[:4], f"back-{uuid.uuid4().hex[:6]}"
    east, west = source_cluster, target_cluster
    there = Service(settings((one, east, two, west, topic, IDENTITY)), tmp_path)
    back = Service(settings((two, west, one, east, topic, {**IDENTITY, "start": "latest"})), tmp_path)
    topics.create(east.bootstrap, topic, 2)
    produce(east.bootstrap, topic, numbers("first", 10))
    with there, contextlib.ExitStack() as later:
        there.wait_for("copied", lambda: values(west, topic) == texts("first", 10))
        later.enter_context(back)
        refused(back, f"{two}->{one}", f"{one}->{two}", f"in a cycle: {topic} of {two} comes from {one}")
        assert back.get("/readyz")[0] == 503 and state(back, two, one) == "blocked"
        failed = [c for c in answer("check", "-c", back.file, code=1)["checks"] if c["what"] == "other flows"]
        assert [(c["scope"], c["outcome"]) for c in failed] == [(f"{two}->{one}", "FAILED")]
        assert not [c for c in answer("check", "-c", there.file)["checks"] if c["outcome"] == "FAILED"]
        shown = mirror("plan", "-c", back.file)
        assert f"REFUSED: flow {two}->{one} conflicts with flow {one}->{two}" in shown.stdout, shown
        assert values(east, topic) == texts("first", 10), "nothing came back"

        killed = time.monotonic()
        there.kill()
        back.wait_for_event(GOES_ON, timeout=PATIENCE + ALIVE)
        assert time.monotonic() - killed > ALIVE / 2, "its last report was younger than a minute"
        warnings = back.find(DOUBTS)
        assert len(warnings) == 1, warnings
        (warned,) = warnings
        assert "that flow is silent" in warned["reason"] and f"{one}->{two}" in warned["reason"]
        group = configuration.group(two, one)
        back.wait_for("it begins", lambda: oracle.committed_position(east.bootstrap, group, topic, 1) is not None)
        # To a partition of their own: what the first flow has copied is none of this test's.
        produce(west.bootstrap, topic, numbers("failed over", 10), partition=1)
        wanted = texts("failed over", 10)
        back.wait_for("it copies back", lambda: values(east, topic, 1) == wanted)
        since = len(back.events)

        with Service(settings((one, east, two, west, topic, IDENTITY)), tmp_path) as again:
            refused(again, f"{one}->{two}", f"{two}->{one}", f"in a cycle: {topic} of {one} comes from {two}")
            settle(again)
            assert not back.find(FLOW_BLOCKED, since), "it is the one that runs, whoever starts again"
            assert values(east, topic, 1) == values(west, topic, 1) == wanted
            assert back.terminate() == 0, back.tail()
            again.wait_for_event(GOES_ON)
            produce(east.bootstrap, topic, numbers("last", 5))
            again.wait_for("it copies again", lambda: values(west, topic)[-5:] == texts("last", 5))
            assert again.terminate() == 0, again.tail()
            assert not again.noise and not back.noise


def a_running_flow_that_meets_another_stops_until_that_one_is_gone(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The other one did not look, as an older mirror would not: it has a plan, and reports."""
    one, two, topic = "here" + uuid.uuid4().hex[:4], "other" + uuid.uuid4().hex[:4], f"met-{uuid.uuid4().hex[:6]}"
    east, west = source_cluster, target_cluster
    topics.create(east.bootstrap, topic)
    produce(east.bootstrap, topic, numbers("first", 10))
    hand, strange = f"mirror-control.{two}.internal", f"mirror-control.strange{two}.internal"
    plan: dict[str, Any] = {
        "leader": "by hand",
        "generation": 1,
        "stop": False,
        "topics": {topic: [topic, "id", 1, 1]},
        "slices": [],
        "clusters": [cluster_id(west.bootstrap), cluster_id(east.bootstrap)],
        "origins": {topic: [cluster_id(west.bootstrap)]},
    }

    def write(control: str, value: bytes) -> None:
        produce(east.bootstrap, control, [Made(b"plan", value)])

    with Service(settings((one, east, two, west, topic, IDENTITY)), tmp_path) as service:
        service.wait_for("copied", lambda: values(west, topic) == texts("first", 10))
        topics.create(east.bootstrap, strange)
        write(strange, b"[" * 50_000)
        (said,) = service.wait_for("the strange one is told of", lambda: service.find(DOUBTS))
        assert strange in said["reason"] and "nested too deeply" in said["reason"]
        service.wait_for("a stranger ends nothing", lambda: service.get("/readyz")[0] == 200)

        topics.create(east.bootstrap, hand)
        write(hand, json.dumps(plan).encode())
        refused(service, f"{one}->{two}", f"{two}->{one}", f"{topic} of {one} comes from {two}")
        assert service.get("/readyz")[0] == 503 and state(service, one, two) == "blocked"

        def has_let_go() -> bool:
            (found,) = answer("status", "-c", service.file, code=1)["flows"]
            return found["state"] == "stopped" and all("before: released" in p["reason"] for p in found["partitions"])

        service.wait_for("its tasks have ended", has_let_go)
        write(hand, json.dumps({**plan, "generation": 2}).encode())  # it has been silent for some time
        produce(east.bootstrap, topic, numbers("second", 10))
        settle(service)
        assert values(west, topic) == texts("first", 10)

        write(hand, json.dumps({**plan, "generation": 3, "stop": True}).encode())
        service.wait_for_event(GOES_ON)
        service.wait_for("copied", lambda: values(west, topic)[10:] == texts("second", 10))
        assert len(service.find(DOUBTS)) == 1, "said more than once"
        topics.delete(east.bootstrap, strange)
        topics.delete(east.bootstrap, hand)
        assert service.terminate() == 0, service.tail()
        assert not service.noise


def of_flows_that_start_at_once_one_of_each_two_goes_on(
    east: LocalCluster, west: LocalCluster, third: LocalCluster, tmp_path: Path
) -> None:
    """A circle, one cluster under two aliases, and flows that write one topic: by their aliases, or from two clusters.

    Each is a flow of either service.
    """
    run = uuid.uuid4().hex[:4]
    a, ab, twin, other, round_ = f"a{run}", f"a{run}.b", f"p{run}", f"q{run}", f"round-{run}"
    both, twice, merged = f"t-{run}", f"twice-{run}", f"merged-{run}"
    same_names = {**IDENTITY, "append_to_existing": "true"}  # each side has records of its own
    left = Service(
        settings(
            (a, east, "backup", west, f"b.{both}", {}),
            (twin, east, "backup", west, twice, {}),
            (f"e{run}", east, f"w{run}", west, round_, same_names),
            (f"m{run}", east, "backup", west, merged, IDENTITY),
        ),
        tmp_path,
    )
    right = Service(
        settings(
            (ab, east, "backup", west, both, {}),
            (other, east, "backup", west, twice, {}),
            (f"w{run}", west, f"e{run}", east, round_, same_names),
            (f"n{run}", third, "backup", west, merged, IDENTITY),
        ),
        tmp_path,
    )
    for topic in (both, f"b.{both}", twice, round_, merged):
        topics.create(east.bootstrap, topic)
        produce(east.bootstrap, topic, numbers(f"east {topic}", 10))
    topics.create(third.bootstrap, merged)
    produce(third.bootstrap, merged, numbers("third", 10))
    topics.create(west.bootstrap, round_)
    produce(west.bootstrap, round_, numbers("west", 10))
    with left, right:
        pairs = [
            (f"{a}->backup", f"{ab}->backup"),
            (f"{twin}->backup", f"{other}->backup"),
            (f"e{run}->w{run}", f"w{run}->e{run}"),
            (f"m{run}->backup", f"n{run}->backup"),
        ]

        def won() -> list[bool]:
            """True for each pair of flows if the left one runs."""
            running = [[e["state"] == "running" for e in flows(service)] for service in (left, right)]
            assert not any(one and two for one, two in zip(*running, strict=True)), "both run"
            return running[0] if all(one or two for one, two in zip(*running, strict=True)) else []

        winners = left.wait_for("one of each two runs", won)
        for (one, two), first in zip(pairs, winners, strict=True):
            loser = (two, right) if first else (one, left)
            refused(loser[1], loser[0], one if first else two, "")
        there, here = texts(f"east {round_}", 10), texts("west", 10)
        wanted = {
            f"{ab}.{both}": (west, texts(f"east b.{both}" if winners[0] else f"east {both}", 10)),
            f"{twin}.{twice}": (west, texts(f"east {twice}", 10) if winners[1] else []),
            f"{other}.{twice}": (west, [] if winners[1] else texts(f"east {twice}", 10)),
            round_: (west, here + there) if winners[2] else (east, there + here),
            merged: (west, texts(f"east {merged}" if winners[3] else "third", 10)),
        }
        for topic, (cluster, expected) in wanted.items():
            left.wait_for(topic, partial(has, cluster, topic, expected))
        settle(left)
        for topic, (cluster, expected) in wanted.items():
            assert values(cluster, topic) == expected
        assert values(east if winners[2] else west, round_) == (there if winners[2] else here)
        assert [left.terminate(), right.terminate()] == [0, 0], left.tail() + right.tail()
        assert not left.noise and not right.noise


def flows(service: Service) -> list[dict[str, Any]]:
    """A service's flows, from its status page."""
    found: list[dict[str, Any]] = json.loads(service.get("/status")[1])["flows"]
    return found


def a_circle_of_three_clusters_is_not_closed(
    east: LocalCluster, west: LocalCluster, third: LocalCluster, tmp_path: Path
) -> None:
    run = uuid.uuid4().hex[:4]
    a, b, c, topic = f"a{run}", f"b{run}", f"c{run}", f"three-{run}"
    topics.create(east.bootstrap, topic)
    produce(east.bootstrap, topic, numbers("first", 10))
    ways = settings((a, east, b, west, topic, IDENTITY), (b, west, c, third, topic, IDENTITY))
    with Service(ways, tmp_path) as service:
        service.wait_for("copied", lambda: values(third, topic) == texts("first", 10))
        ids = [cluster_id(cluster.bootstrap) for cluster in (east, west)]

        def origins() -> list[str]:
            """The origins of the topic on the third cluster, by the plan of the last flow."""
            records = oracle.read(third.bootstrap, f"mirror-control.{b}.internal")[0]
            plans = [json.loads(record.value or b"") for record in records if record.key == b"plan"]
            return plans[-1]["origins"][topic] if plans else []

        service.wait_for("it knows the first cluster, too", lambda: origins() == sorted(ids))
        with Service(settings((c, third, a, east, topic, IDENTITY)), tmp_path) as closing:
            why = f"in a cycle: {topic} of {c} comes from {a}"
            refused(closing, f"{c}->{a}", f"{b}->{c}", why)
            settle(closing)
            assert closing.terminate() == 0, closing.tail()
        for cluster in (east, west, third):
            assert values(cluster, topic) == texts("first", 10)
        assert service.terminate() == 0, service.tail()


# Without a service: what is made of what stands on the control topics.


class Stranger:
    """A flow that is no service: writes its plan and reports to a cluster."""

    def __init__(self, cluster: LocalCluster, alias: str, clusters: list[str] | None, **remotes: str) -> None:
        self.alias = alias
        self._bootstrap = cluster.bootstrap
        topics_ = {name: [remote, "id", 1, 1] for name, remote in remotes.items()}
        self._plan = {"leader": alias, "generation": 1, "topics": topics_, "slices": []}
        if clusters:
            self._plan["clusters"] = clusters
        self.control = topics.create(cluster.bootstrap, f"mirror-control.{alias}.internal")
        self.status = topics.create(cluster.bootstrap, f"mirror-status.{alias}.internal")

    def plan(self, ago: float = 0.0, key: bytes = b"plan", **changes: object) -> None:
        """Write it, as of some seconds ago."""
        value = json.dumps(self._plan | changes).encode()
        produce(self._bootstrap, self.control, [Made(key, value)], timestamp=_ms(ago))

    def report(self, ago: float = 0.0) -> None:
        """Write anything that one could take for a report."""
        produce(self._bootstrap, self.status, [Made(b"t/0", b"{}")], timestamp=_ms(ago))

    def gone(self) -> None:
        """Leave no trace."""
        for topic in (self.control, self.status):
            topics.delete(self._bootstrap, topic)


def _ms(ago: float) -> int:
    return int((time.time() - ago) * 1000)


def other_flows(
    one: LocalCluster, other: LocalCluster, alias: str, directory: Path, topic: str = "t", **more: Any
) -> OtherFlows:
    """What a flow from one cluster to the other knows of other flows; `more` goes to `one_flow`."""
    file = directory / f"{uuid.uuid4().hex}.yaml"
    flow = configuration.one_flow(one.bootstrap, other.bootstrap, [topic], alias=alias, **more)
    file.write_text(yaml.safe_dump(flow))
    return OtherFlows(load(file).flows[0])


def refusals(view: OthersView) -> list[str]:
    return [note.problem for note in view.refusals]


def ours(notes: list[Note], alias: str) -> list[str]:
    """The problems that have this name. Tests beside this one may have left others."""
    return [note.problem for note in notes if alias in str(note)]


LONG_AGO = 10 * ALIVE


def test_a_plan_counts_while_it_shows_signs_of_life(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    alias = f"x{uuid.uuid4().hex[:6]}"
    known = other_flows(source_cluster, target_cluster, "mine", tmp_path)
    stranger = Stranger(target_cluster, alias, ["elsewhere", cluster_id(target_cluster.bootstrap)], t=f"{alias}.t")

    def alive() -> bool:
        """True if the flow is alive to one who has looked before, and to one who has not."""
        new = other_flows(source_cluster, target_cluster, "mine", tmp_path)
        views = [each.look({"t": f"{alias}.t"}) for each in (known, new)]
        for view in views:
            assert len(ours([*view.refusals, *view.warnings], alias)) == 1
        (first, second) = (bool(refusals(view)) for view in views)
        assert first == second
        return first

    stranger.plan(ago=LONG_AGO)
    assert not alive(), "it has never reported"
    stranger.report(ago=LONG_AGO)
    assert known.look({"t": f"{alias}.t"}).refusals, "its clock is behind, but somebody has just written"
    stranger.report()
    assert alive()
    stranger.plan(stop=True)
    assert not known.look({"t": f"{alias}.t"}).conflicting_flows
    stranger.plan(key=b"intent", generation=2)
    assert alive()
    stranger.plan(generation=3, stop=True)
    assert not known.look({"t": f"{alias}.t"}).conflicting_flows, "a plan has followed"
    stranger.gone()
    assert not known.look({"t": f"{alias}.t"}).conflicting_flows


@pytest.mark.parametrize(("report", "alive"), [(LONG_AGO, False), (5.0, True), (-LONG_AGO, True)])
def test_at_the_first_look_the_newest_report_says_it(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, report: float, alive: bool
) -> None:
    """One from the future says that a clock is wrong, not that nobody is there."""
    alias = f"x{uuid.uuid4().hex[:6]}"
    stranger = Stranger(target_cluster, alias, None, t=f"{alias}.t")
    stranger.plan(ago=LONG_AGO)
    stranger.report(ago=report)
    view = other_flows(source_cluster, target_cluster, "mine", tmp_path).look({"t": f"{alias}.t"})
    assert [finding.other.alive for finding in view.conflicting_flows] == [alive]
    stranger.gone()


def test_what_can_not_be_told_is_a_doubt(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    alias = f"x{uuid.uuid4().hex[:6]}"
    older = Stranger(source_cluster, f"older{alias}", None, t=alias)
    older.plan()
    broken = Stranger(source_cluster, f"broken{alias}", None, t=alias)
    broken.plan(topics=[], leader="someone")
    view = other_flows(source_cluster, target_cluster, "mine", tmp_path).look({alias: f"mine.{alias}"})
    assert not view.conflicting_flows and not view.refusals
    first, second = sorted(ours(view.warnings, alias))
    assert first.startswith(f"an older version of mirror runs flow older{alias}->mine")
    assert f"broken{alias}.internal of mine has no plan that can be decoded (topics is not a JSON object)" in second
    assert view.lineage.origins == {f"mine.{alias}": (cluster_id(source_cluster.bootstrap),)}
    older.gone()
    broken.gone()


def test_an_alias_that_another_configuration_gave_to_another_cluster(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    alias = f"x{uuid.uuid4().hex[:6]}"
    here, there = (cluster_id(cluster.bootstrap) for cluster in (source_cluster, target_cluster))
    namesake = Stranger(target_cluster, alias, ["elsewhere", there], t=f"{alias}.t")
    namesake.plan()
    namesake.report()
    known = other_flows(source_cluster, target_cluster, alias, tmp_path)
    (said,) = refusals(known.look({"u": f"{alias}.u"}))
    assert f"copies another cluster that has the alias {alias}, too: elsewhere" in said
    namesake.plan(clusters=[here, there])
    assert not known.look({"t": f"{alias}.t"}).conflicting_flows, "that is our own"
    namesake.gone()


def test_a_reverse_flow_that_comes_between_two_looks_is_seen_at_the_second(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Its control topic has the name that the first look asked for, to see whether such names are hidden."""
    here, there = (cluster_id(cluster.bootstrap) for cluster in (source_cluster, target_cluster))
    alias = f"x{uuid.uuid4().hex[:6]}"
    known = other_flows(source_cluster, target_cluster, "mine", tmp_path, alias, target_alias=alias, flow=IDENTITY)
    assert not ours([*known.look({alias: alias}).refusals], alias)
    reverse = Stranger(source_cluster, alias, [there, here], **{alias: alias})
    reverse.plan(origins={alias: [there]})
    (said,) = until("its plan is read", lambda: refusals(known.look({alias: alias})), timeout=ALIVE / 4)
    assert f"conflicts with flow {alias}->mine" in said and "in a cycle" in said
    reverse.gone()


def test_where_nothing_has_changed_nothing_is_fetched(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last on the topic is a marker, which no reader is given, and still nothing is fetched."""
    opened: list[str] = []

    def counted(cluster: Cluster, group: str) -> Consumer:
        opened.append(cluster.alias)
        return internal_consumer(cluster, group)

    monkeypatch.setattr(cluster_plans, "internal_consumer", counted)
    alias = f"x{uuid.uuid4().hex[:6]}"
    stranger = Stranger(target_cluster, alias, ["elsewhere", "there"], t="other")
    plan = json.dumps({"leader": "x", "generation": 1, "topics": {"t": [f"{alias}.t"]}}).encode()
    writer = Producer({"bootstrap.servers": target_cluster.bootstrap, "transactional.id": alias, "log_level": 0})
    writer.init_transactions(PATIENCE)
    writer.begin_transaction()
    writer.produce(stranger.control, plan, b"plan", 0)
    writer.commit_transaction(PATIENCE)
    known = other_flows(source_cluster, target_cluster, "mine", tmp_path)
    until("it is read", lambda: known.look({"t": f"{alias}.t"}).refusals)
    opened.clear()
    assert known.look({"t": f"{alias}.t"}).refusals and not opened
    stranger.report()
    assert known.look({"t": f"{alias}.t"}).refusals and not opened, "that it grows says enough"
    stranger.plan(stop=True)
    assert not known.look({"t": f"{alias}.t"}).refusals
    stranger.plan(topics={"t": [f"{alias}.t"]})
    assert known.look({"t": f"{alias}.t"}).refusals and not opened, "the consumer stays open"
    stranger.gone()


def test_a_control_topic_that_is_deleted_while_it_is_read_holds_nobody_up(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signs of life of other flows come all the time, and do not make up for the records that never come."""
    living, ended = (Stranger(target_cluster, f"x{uuid.uuid4().hex[:6]}", None, t="other") for _ in range(2))
    for each in (living, ended):
        each.plan()
    original = ClusterPlans._ends

    def deleted_then(plans: ClusterPlans, names: Iterable[str]) -> dict[str, int]:
        found = original(plans, names)
        if ended.control in found:
            ended.gone()
            until("it is gone", lambda: not topics.partitions(target_cluster.bootstrap, ended.control))
        return found

    monkeypatch.setattr(ClusterPlans, "_ends", deleted_then)
    monkeypatch.setattr(cluster_plans, "READ_TIMEOUT", 1.0)
    known = other_flows(source_cluster, target_cluster, "mine", tmp_path)
    with ThreadPoolExecutor(1) as pool:
        look = pool.submit(known.look, {"t": "mine.t"})
        deadline = time.monotonic() + PATIENCE / 4
        while not look.done() and time.monotonic() < deadline:
            living.plan()
        assert look.done(), "it reads on as long as another flow lives"
    assert ours([*look.result().doubts], ended.control), "it is told"
    living.gone()


def test_one_answer_that_does_not_come_casts_no_doubt(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic would not be read for a minute, and its flow, though it has gone silent, would still count as alive."""
    other = Stranger(target_cluster, f"x{uuid.uuid4().hex[:6]}", None, t="other")
    other.plan()
    original, asked = ClusterPlans._ask_ends, list[str]()

    def late_once(plans: ClusterPlans, names: Iterable[str], found: dict[str, int]) -> dict[str, KafkaError]:
        failed = original(plans, names, found)
        if other.control in found:
            asked.append(other.control)
            if len(asked) == 1:
                del found[other.control]
                failed[other.control] = KafkaError(KafkaError._TIMED_OUT)
        return failed

    monkeypatch.setattr(ClusterPlans, "_ask_ends", late_once)
    view = other_flows(source_cluster, target_cluster, "mine", tmp_path).look({"t": "mine.t"})
    assert len(asked) > 1 and not ours([*view.doubts], other.control)
    other.gone()
