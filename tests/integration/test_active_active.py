"""Two clusters whose programs write to the same topics: with `active_active` each record is on both once."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.config.load import load
from mirror.control.plan import Plan
from mirror.demo.brokers import LocalCluster
from mirror.groups.translator import Translator
from mirror.model import Partition, Topic
from tests.checker.history import Record
from tests.harness import configuration, oracle, topics
from tests.harness.command import answer
from tests.harness.load import Load, Made, mixed, produce
from tests.harness.seeds import seed
from tests.harness.service import BLOCKED, FLOW_BLOCKED, Service
from tests.integration.test_circles import cluster_id, other_flows
from tests.integration.test_crashes import kill_worker

pytestmark = pytest.mark.slow

HEADER = "mirror.provenance"
MARK = {"replication_policy": "identity", "active_active": True}
PARTITIONS = 2
FEW = 50  # records that are there before mirror is


class Both:
    """A topic on two clusters, and what a program sees that reads it."""

    def __init__(self, east: LocalCluster, west: LocalCluster) -> None:
        run = uuid.uuid4().hex[:4]
        self.topic, self.aliases = f"both-{run}", (f"east{run}", f"west{run}")
        self.places = dict(zip(self.aliases, (east.bootstrap, west.bootstrap), strict=True))
        self.ids = {alias: cluster_id(place) for alias, place in self.places.items()}
        for place in self.places.values():
            topics.create(place, self.topic, PARTITIONS)

    def settings(self) -> configuration.Settings:
        """One configuration with both flows."""
        east, west = self.aliases
        groups = {"sync": True, "interval": "1s", "include": [self.topic]}
        both = {**MARK, "groups": groups, "canary": {"enabled": True, "interval": "1s"}}
        flows = [
            configuration.one_flow(self.places[a], self.places[b], [self.topic], alias=a, target_alias=b, flow=more)
            for a, b, more in ((east, west, {}), (west, east, {"sync_topic_configs": False}))
        ]
        return {**configuration.together(*flows), "flow_defaults": both}

    def copies(self, cluster: str, of: str) -> dict[int, list[Record]]:
        """The records of each partition that were copied to a cluster, without mirror's header."""
        read = oracle.read(self.places[cluster], self.topic)
        return {number: list(self._copies(number, records, of)) for number, records in read.items()}

    def _copies(self, number: int, records: list[Record], of: str) -> Iterator[Record]:
        wanted = f"{self.topic},{number},{self.ids[of]}".encode()
        for record in records:
            values = [value for name, value in record.headers if name == HEADER]
            if wanted in values:
                assert values == [wanted] and record.headers[-1][0] == HEADER
                yield record._replace(headers=record.headers[:-1])

    def local(self, cluster: str) -> dict[int, list[Record]]:
        """The records of each partition that no flow has written. A header that a program has handed on is removed."""
        read = oracle.read(self.places[cluster], self.topic)
        own = f"{self.topic},".encode()
        found: dict[int, list[Record]] = {}
        for number, records in read.items():
            values = [{n: v or b"" for n, v in record.headers}.get(HEADER, b"") for record in records]
            found[number] = [
                record._replace(headers=tuple(each for each in record.headers if each[0] != HEADER))
                for record, value in zip(records, values, strict=True)
                if not value.startswith(own)
            ]
        return found

    def is_complete(self) -> bool:
        """True if each side has as many copies as the other has records."""
        (one, other) = self.aliases
        return all(
            oracle.count(self.copies(there, here)) >= oracle.count(self.local(here))
            for here, there in ((one, other), (other, one))
        )


def lag(service: Service) -> float:
    return service.metric("mirror_source_topic_partition_lag")


def test_programs_write_on_both_sides_and_a_worker_is_killed(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    both, rng = Both(source_cluster, target_cluster), random.Random(seed())
    east, west = both.aliases
    for number, place in enumerate(both.places.values()):
        made = [mixed(each) for each in range(number * FEW, (number + 1) * FEW)]
        produce(place, both.topic, made)
    # Kafka Streams hands headers on: those of another topic say nothing.
    handed_on: list[tuple[str, bytes | None]] = [(HEADER, f"results,0,{both.ids[east]}".encode()), ("app", b"1")]
    produce(both.places[west], both.topic, [Made(b"k", b"handed on", handed_on)])
    shared = {both.topic: PARTITIONS}
    with ExitStack() as stack:
        loads = [
            stack.enter_context(Load(both.places[east], shared, rate=200, make=mixed, first=1_000)),
            stack.enter_context(
                Load(both.places[west], shared, rate=200, make=mixed, first=10**6, transaction=20, abort_every=5)
            ),
        ]
        service = stack.enter_context(Service(both.settings(), tmp_path))
        service.wait_for("copies", lambda: service.metric("mirror_source_records_total") > 500)
        kill_worker(service, rng)
        before = service.metric("mirror_source_records_total")
        service.wait_for("more", lambda: service.metric("mirror_source_records_total") > before + 500)
        for load_ in loads:
            load_.stop()
        service.wait_for("all is copied", both.is_complete)
        service.wait_for("positions are after what is left out", lambda: lag(service) == 0)
        assert_left_out_is_counted(both, service)
        for here, there in ((east, west), (west, east)):
            oracle.compare(both.local(here), both.copies(there, here))
        assert service.metric("mirror_foreign_offsets_total") == 0
        assert not [*service.find(BLOCKED), *service.find(FLOW_BLOCKED)]
        assert_offsets(both, service)
        assert_groups(both, service, rng)
        assert_canaries(both, service, east, west)
        assert_canaries(both, service, west, east)
        text = service.file.read_text()
        assert_old_copies_stay(both, service)
        assert service.terminate() == 0, service.tail()
    service.file.write_text(text)
    found = answer("verify", "-c", service.file)
    assert [each["compared"] for each in found["flows"]] == [oracle.count(both.local(each)) for each in both.aliases]
    assert found["equal"] and not any(each["not_comparable"] or each["unmarked"] for each in found["flows"])


def assert_left_out_is_counted(both: Both, service: Service) -> None:
    """Only what comes now is told: of what it has left out before, the killed worker did not report all."""
    east, west = both.aliases
    before = service.metric("mirror_left_out_records_total", source=west, target=east)
    produce(both.places[east], both.topic, [mixed(each) for each in range(10**7, 10**7 + FEW)])

    def counted() -> bool:
        return service.metric("mirror_left_out_records_total", source=west, target=east) >= before + FEW

    service.wait_for("what comes back is left out and counted", counted)
    service.wait_for("positions are after it", lambda: lag(service) == 0)


def assert_offsets(both: Both, service: Service) -> None:
    """Each record's place on the other side is known exactly, both ways, though others write between."""
    for flow in load(service.file).flows:
        here = oracle.read(both.places[flow.source.alias], both.topic)
        for number, copies in both.copies(flow.target.alias, flow.source.alias).items():
            partition = Partition(both.topic, number)
            brought = {record.offset for record in both.copies(flow.source.alias, flow.target.alias)[number]}
            own = [record.offset for record in here[number] if record.offset not in brought]
            with closing(Translator(flow)) as translator:
                translator.refresh([partition])
                for up, down in list(zip(own, copies, strict=True))[:: max(1, len(own) // 20)]:
                    assert translator.to_downstream(partition, up).translated == down.offset
                    assert translator.to_upstream(partition, down.offset).translated == up
    east, west = both.aliases
    first = ("--flow", f"{east}->{west}", "--topic", both.topic, "--partition", 0, "--offset", 0)
    shown = answer("translate", "-c", service.file, *first)
    assert "says nothing about those that are written on the target" in shown["offsets"][0]["reason"]


def assert_groups(both: Both, service: Service, rng: random.Random) -> None:
    """A group that has stopped on one side goes on at the other one with a record that it has not read."""
    east, west = both.aliases
    here, there = (oracle.read(both.places[each], both.topic) for each in both.aliases)
    read = {number: rng.randrange(len(records) // 2, len(records)) for number, records in here.items()}
    offsets = {number: here[number][count].offset for number, count in read.items()}
    topics.commit(both.places[east], both.topic, both.topic, offsets)

    def synced() -> dict[int, int]:
        found = {n: oracle.committed_position(both.places[west], both.topic, both.topic, n) for n in read}
        return {n: at for n, at in found.items() if at is not None} if None not in found.values() else {}

    for number, at in service.wait_for("the group is synced", synced).items():
        known = {plain(record) for record in here[number][: read[number]]}
        passed = [record for record in there[number] if record.offset < at]
        assert {plain(record) for record in passed} <= known
        assert plain(there[number][len(passed)]) not in known, "no higher offset passes over nothing"


def assert_canaries(both: Both, service: Service, here: str, there: str) -> None:
    """The flow has its own, which does not go back."""
    service.wait_for("a canary", lambda: service.metric("mirror_canary_seconds", source=here, target=there) > 0)
    on_both = [oracle.read(both.places[each], f"mirror-canary.{here}.internal")[0] for each in (there, here)]
    copied, written = ([plain(record) for record in records] for records in on_both)
    assert copied and copied == written[: len(copied)], "read first, so it has no more"


def assert_old_copies_stay(both: Both, service: Service) -> None:
    """A reload brings a topic that had been copied to the flow's source before there was a mark."""
    run = uuid.uuid4().hex[:6]
    topic, control = f"old-{run}", f"mirror-control.gone{run}.internal"
    east, west = both.aliases
    for place in both.places.values():
        topics.create(place, topic)
    topics.create(both.places[west], control)
    known, clusters = {topic: Topic(topic, "id", 1, 1)}, (both.ids[east], both.ids[west])
    produce(both.places[west], topic, [Made(None, b"copied before")])
    ended = Plan("them", 1, known, (), True, clusters=clusters, origins={topic: clusters[:1]})
    produce(both.places[west], control, [Made(b"plan", ended.encode())])
    written = yaml.safe_load(service.file.read_text())
    written["flows"][1] |= {"topics": [both.topic, topic], "topic_settings": {topic: {"start": "latest"}}}
    service.rewrite(yaml.safe_dump(written))

    def at() -> int | None:
        return oracle.committed_position(both.places[east], f"mirror-{west}-{east}", topic, 0)

    assert service.wait_for("the topic is taken up", at) == 1
    produce(both.places[west], topic, [Made(None, b"made here")])
    service.wait_for("it is copied", lambda: at() != 1)
    assert [record.value for record in oracle.read(both.places[east], topic)[0]] == [b"made here"]


def plain(record: Record) -> tuple[object, ...]:
    """The record as its program has written it."""
    return record.key, record.value, tuple(each for each in record.headers if each[0] != HEADER), record.timestamp


OLD = "has copied them before it had active_active: true"
ONE = "only one of the flows has active_active: true"


def refusals(
    source: LocalCluster, target: LocalCluster, run: str, tmp_path: Path, other: str, own: Mapping[str, Any]
) -> str:
    """Why a flow of topic `t<run>` with these keys would not run, as far as that is about the flow `other`."""
    topic = f"t{run}"
    names = {"target_alias": f"two{run}", "flow": {"replication_policy": "identity", **own}}
    view = other_flows(source, target, f"one{run}", tmp_path, topic, **names).look({topic: topic})
    return " ".join(str(note) for note in view.refusals if other in str(note))


def test_a_flow_that_comes_back_is_accepted_if_both_carry_the_mark(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The other flow is no service: its plan stands on the control topic."""
    run = uuid.uuid4().hex[:6]
    here, there = cluster_id(source_cluster.bootstrap), cluster_id(target_cluster.bootstrap)
    control, topic = f"mirror-control.back{run}.internal", f"t{run}"
    topics.create(source_cluster.bootstrap, control)
    known = {topic: Topic(topic, "id", 1, 1)}
    before = Plan("them", 1, known, (), clusters=(there, here), origins={topic: (there,)})
    now = replace(before, active_active=True)
    latest = {"topic_settings": {topic: {"start": "latest"}}}

    def said(plan: Plan, **own: Any) -> str:
        produce(source_cluster.bootstrap, control, [Made(b"plan", plan.encode())])
        return refusals(source_cluster, target_cluster, run, tmp_path, f"back{run}", own)

    assert "records would be copied in a cycle: " in said(before)
    assert not said(now, **MARK)
    assert ONE in said(now) and ONE in said(before, **MARK)
    old = replace(now, unmarked={topic: "id"})
    assert OLD in said(old, **MARK) and not said(old, **MARK, **latest)
    assert OLD in said(before.stopped(), **MARK), "also of a flow that has ended"
    assert not said(before.stopped(), **MARK, **latest)
    topics.delete(source_cluster.bootstrap, control)


def test_what_a_flow_that_has_ended_has_copied_is_not_copied_again(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """It had another alias for the source. With the mark, its copies look like records of local programs."""
    run = uuid.uuid4().hex[:6]
    here, there = cluster_id(source_cluster.bootstrap), cluster_id(target_cluster.bootstrap)
    control, topic = f"mirror-control.gone{run}.internal", f"t{run}"
    topics.create(target_cluster.bootstrap, control)
    known = {topic: Topic(topic, "id", 1, 1)}
    lives = Plan("them", 1, known, (), clusters=(here, there), origins={topic: (here,)})

    def said(plan: Plan, **own: Any) -> str:
        produce(target_cluster.bootstrap, control, [Made(b"plan", plan.encode())])
        return refusals(source_cluster, target_cluster, run, tmp_path, f"gone{run}", own)

    again, both = f"records of {topic} that flow gone{run}->two{run} has copied to two{run} would be", "both write to"
    assert both in said(lives, **MARK) and again not in said(lives, **MARK)
    ended = lives.stopped()
    assert again in said(ended, **MARK)
    assert not said(ended), "the partitions are blocked instead"
    assert not said(ended, **MARK, topic_settings={topic: {"start": "latest"}})
    assert not said(ended, **MARK, append_to_existing=True)
    topics.delete(target_cluster.bootstrap, control)
