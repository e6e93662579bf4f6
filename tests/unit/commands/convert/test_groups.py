"""Consumer groups, checkpoints and heartbeats: each of MirrorMaker's settings, alone and with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror.commands.convert import together
from mirror.commands.convert.command import Conversion
from mirror.commands.convert.group_settings import ROWS
from mirror.commands.convert.properties import parse
from mirror.settings import Flow
from tests.unit.commands.convert.test_convert import SHORT, converted, fates, loaded, refused, why

BOTH = SHORT + "b->a.enabled=true\n"
DEFAULT_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")


def flows(folder: Path, found: Conversion) -> dict[str, Flow]:
    assert found.problems == ()
    return {flow.name: flow for flow in loaded(folder, found).flows}


def flow(folder: Path, *lines: str) -> Flow:
    return flows(folder, converted(folder, SHORT + "\n".join(lines) + "\n"))["a->b"]


def own(found: Conversion) -> dict[str, Any]:
    """The first flow as it is written."""
    tree: dict[str, Any] = yaml.safe_load(found.text)["flows"][0]
    return tree


CASES = [
    ("groups=billing", "groups", "renamed", {"groups": {"include": ["billing"]}}),
    ("groups=my.team, x.*", "groups", "different", {"groups": {"include": ["my.team", "x.*"]}}),
    ("groups=", "groups", "different", {"groups": {"exclude": [".*"]}}),
    ("groups.exclude=x", "groups.exclude", "renamed", {"groups": {"exclude": ["x"]}}),
    ("groups.exclude=", "groups.exclude", "renamed", {"groups": {"exclude": []}}),
    ("groups.blacklist=x", "groups.blacklist", "renamed", {"groups": {"exclude": ["x"]}}),
    ("group.filter.class=org.apache.kafka.connect.mirror.DefaultGroupFilter", "group.filter.class", "not needed", {}),
    ("group.filter.class=x.Mine", "group.filter.class", "not possible", {}),
    ("refresh.groups.enabled=true", "refresh.groups.enabled", "not needed", {}),
    ("refresh.groups.enabled=false", "refresh.groups.enabled", "not possible", {}),
    ("refresh.groups.interval.seconds=5", "refresh.groups.interval.seconds", "not needed", {}),
    ("emit.checkpoints.enabled=true", "emit.checkpoints.enabled", "renamed", {"groups": {"checkpoints": True}}),
    ("emit.checkpoints.enabled=False", "emit.checkpoints.enabled", "renamed", {"groups": {"checkpoints": False}}),
    ("emit.checkpoints.enabled=no", "emit.checkpoints.enabled", "not possible", {}),
    ("emit.checkpoints.interval.seconds=5", "emit.checkpoints.interval.seconds", "renamed",
     {"groups": {"interval": "5s"}}),
    ("emit.checkpoints.interval.seconds=0", "emit.checkpoints.interval.seconds", "not possible", {}),
    ("emit.checkpoints.interval.seconds=x", "emit.checkpoints.interval.seconds", "not possible", {}),
    ("checkpoints.topic.replication.factor=2", "checkpoints.topic.replication.factor", "renamed",
     {"internal_replication_factor": 2}),
    ("sync.group.offsets.enabled=true", "sync.group.offsets.enabled", "renamed", {"groups": {"sync": True}}),
    ("sync.group.offsets.enabled=false", "sync.group.offsets.enabled", "renamed", {"groups": {"sync": False}}),
    ("sync.group.offsets.interval.seconds=5", "sync.group.offsets.interval.seconds", "not needed", {}),
    ("emit.heartbeats.enabled=true", "emit.heartbeats.enabled", "different", {"heartbeats": {"enabled": True}}),
    ("emit.heartbeats.enabled=false", "emit.heartbeats.enabled", "different", {"heartbeats": {"enabled": False}}),
    ("emit.heartbeats.interval.seconds=5", "emit.heartbeats.interval.seconds", "renamed",
     {"heartbeats": {"interval": "5s"}}),
    ("emit.heartbeats.interval.seconds=9999", "emit.heartbeats.interval.seconds", "not possible", {}),
    ("heartbeats.topic.replication.factor=1", "heartbeats.topic.replication.factor", "not needed", {}),
    ("heartbeats.replication.enabled=true", "heartbeats.replication.enabled", "different", {}),
    ("heartbeats.replication.enabled=false", "heartbeats.replication.enabled", "not needed", {}),
]  # fmt: skip


@pytest.mark.parametrize("line, key, fate, expected", CASES)
def test_a_setting_alone(tmp_path: Path, line: str, key: str, fate: str, expected: dict[str, Any]) -> None:
    found = converted(tmp_path, f"{SHORT}{line}\n")
    assert fates(found)[key] == fate, why(found, key)
    assert {name: value for name, value in own(found).items() if name not in ("source", "target")} == expected
    (row,) = [row for row in found.rows if row.key == key]
    assert bool(row.ours) == bool(expected)
    flows(tmp_path, found)


def test_every_setting_is_tried() -> None:
    assert {key for _, key, _, _ in CASES} == {row.name for row in ROWS}
    assert not [row.name for row in ROWS if row.fate == "not there yet"]


def test_a_file_that_says_nothing_gets_our_defaults_and_heartbeats_are_not_switched_on(tmp_path: Path) -> None:
    found = converted(tmp_path, SHORT)
    assert set(own(found)) == {"source", "target"}
    silent = flow(tmp_path)
    assert (silent.groups.sync, silent.groups.checkpoints, silent.groups.exclude) == (False, True, DEFAULT_EXCLUDE)
    assert (silent.groups.interval, silent.heartbeats.enabled) == (60.0, False)
    (row,) = [row for row in found.defaults if "heartbeats" in row.key]
    assert "MirrorMaker's default is true" in row.why and "Create, Write, Read and Describe on the source" in row.why
    assert not [row for row in found.defaults if "checkpoints" in row.key or "sync.group" in row.key]


def test_an_interval_does_not_switch_heartbeats_on(tmp_path: Path) -> None:
    found = converted(tmp_path, f"{SHORT}emit.heartbeats.interval.seconds=5\n")
    assert not flows(tmp_path, found)["a->b"].heartbeats.enabled
    assert "heartbeats stay off" in why(found, "emit.heartbeats.interval.seconds")
    assert "emit.heartbeats.enabled" in {row.key for row in found.defaults}


@pytest.mark.parametrize(
    "lines, seconds, losing, fate",
    [
        ("S=true S.interval=30", 30.0, "", ""),
        ("S=true S.interval=300", 60.0, together.SYNC_INTERVAL, "different"),
        ("S=true C.interval=300", 60.0, together.CHECKPOINTS_INTERVAL, "different"),
        ("S=true C.interval=30 S.interval=20", 20.0, together.CHECKPOINTS_INTERVAL, "different"),
        ("S=true C.interval=20 S.interval=30", 20.0, together.SYNC_INTERVAL, "different"),
        ("S=true C.interval=30 S.interval=30", 30.0, "", ""),
        ("C.interval=300", 300.0, "", ""),
        ("S.interval=300 C.interval=30", 30.0, together.SYNC_INTERVAL, "not needed"),
        ("S=true C=false S.interval=300 C.interval=30", 300.0, together.CHECKPOINTS_INTERVAL, "not needed"),
        ("S=true C=false S.interval=300", 300.0, "", ""),
    ],
)
def test_one_interval_holds_for_both_and_never_less_often(
    tmp_path: Path, lines: str, seconds: float, losing: str, fate: str
) -> None:
    names = {
        "S": together.SYNC, "C": together.CHECKPOINTS,
        "S.interval": together.SYNC_INTERVAL, "C.interval": together.CHECKPOINTS_INTERVAL,
    }  # fmt: skip
    pairs = [each.partition("=") for each in lines.split()]
    found = converted(tmp_path, SHORT + "".join(f"{names[name]}={value}\n" for name, _, value in pairs))
    assert flows(tmp_path, found)["a->b"].groups.interval == seconds
    kept = [name for name in (together.SYNC_INTERVAL, together.CHECKPOINTS_INTERVAL) if name in fates(found)]
    for name in kept:
        assert fates(found)[name] == (fate if name == losing else "renamed"), name


def test_sync_without_checkpoints_is_carried_and_what_differs_is_said(tmp_path: Path) -> None:
    found = converted(tmp_path, f"{SHORT}sync.group.offsets.enabled=true\nemit.checkpoints.enabled=false\n")
    groups = flows(tmp_path, found)["a->b"].groups
    assert (groups.sync, groups.checkpoints) == (True, False)
    assert fates(found)["sync.group.offsets.enabled"] == "different"
    assert "MirrorMaker syncs no group" in why(found, "sync.group.offsets.enabled")


def test_no_group_stays_no_group(tmp_path: Path) -> None:
    found = converted(tmp_path, f"{SHORT}groups.exclude=x\ngroups=,\ngroups.blacklist=y\n")
    assert flows(tmp_path, found)["a->b"].groups.exclude == (".*",)
    assert fates(found)["groups.exclude"] == fates(found)["groups.blacklist"] == "not needed"


@pytest.mark.parametrize("first, last", [("exclude", "blacklist"), ("blacklist", "exclude")])
@pytest.mark.parametrize("what", ["topics", "groups"])
def test_the_new_name_takes_precedence_over_the_old_one(tmp_path: Path, what: str, first: str, last: str) -> None:
    found = converted(tmp_path, f"{SHORT}{what}.{first}={first}\n{what}.{last}={last}\n")
    one = flows(tmp_path, found)["a->b"]
    assert (one.exclude if what == "topics" else one.groups.exclude) == ("exclude",)
    assert fates(found)[f"{what}.blacklist"] == "not needed"


@pytest.mark.parametrize(
    "pattern, said",
    [
        (r"\\p{Alpha}+", "bad escape \\p at position 0; write a set of characters"),
        ("a{1,3}", "splits the list at every comma"),
        ("${env:GROUPS}", "a reference can't stand for a list"),
    ],
)
@pytest.mark.parametrize("key", ["groups", "groups.exclude", "groups.blacklist"])
def test_expressions_that_only_java_knows_are_refused(tmp_path: Path, key: str, pattern: str, said: str) -> None:
    text = refused(tmp_path, f"{SHORT}{key}={pattern}\n")
    assert text.startswith(f":5: {key}: ") and said in text


@pytest.mark.parametrize(
    "lines, factor, fate",
    [
        (["offset-syncs=1", "checkpoints=3"], 3, {"offset-syncs": "different", "checkpoints": "renamed"}),
        (["offset-syncs=3", "checkpoints=1"], 3, {"offset-syncs": "renamed", "checkpoints": "different"}),
        (["offset-syncs=2", "checkpoints=2"], 2, {"offset-syncs": "renamed", "checkpoints": "renamed"}),
        (["offset-syncs=-1", "checkpoints=1"], 1, {"offset-syncs": "different"}),
        (["offset-syncs=1", "checkpoints=3", "off"], 1, {"offset-syncs": "renamed", "checkpoints": "not needed"}),
        (["offset-syncs=3", "heartbeats=3", "on"], 3, {"heartbeats": "different"}),
        (["offset-syncs=3", "heartbeats=1", "on"], 3, {"heartbeats": "not possible"}),
        (["heartbeats=1", "on"], -1, {"heartbeats": "not possible"}),
        (["heartbeats=-1", "on"], -1, {"heartbeats": "different"}),
        (["heartbeats=3"], -1, {"heartbeats": "not needed"}),
    ],
)
def test_one_number_of_replicas(tmp_path: Path, lines: list[str], factor: int, fate: dict[str, str]) -> None:
    more = {"on": "emit.heartbeats.enabled=true", "off": "emit.checkpoints.enabled=false"}
    text = "".join(f"{more.get(each) or each.replace('=', '.topic.replication.factor=')}\n" for each in lines)
    found = converted(tmp_path, SHORT + text)
    assert flows(tmp_path, found)["a->b"].internal_replication_factor == factor
    assert {name: fates(found)[f"{name}.topic.replication.factor"] for name in fate} == fate


@pytest.mark.parametrize("replicated, fate", [("true", "not needed"), ("false", "not possible")])
def test_our_heartbeats_are_always_copied(tmp_path: Path, replicated: str, fate: str) -> None:
    text = f"{SHORT}emit.heartbeats.enabled=true\nheartbeats.replication.enabled={replicated}\n"
    assert fates(converted(tmp_path, text))["heartbeats.replication.enabled"] == fate


class TestWhoseHeartbeats:
    """MirrorMaker's herder of b->a writes to a the heartbeats that a->b copies."""

    def test_those_of_the_other_direction_count(self, tmp_path: Path) -> None:
        found = converted(
            tmp_path, f"{BOTH}b->a.emit.heartbeats.enabled=true\nb->a.emit.heartbeats.interval.seconds=7\n"
        )
        both = flows(tmp_path, found)
        assert (both["a->b"].heartbeats.enabled, both["a->b"].heartbeats.interval) == (True, 7.0)
        assert (both["b->a"].heartbeats.enabled, both["b->a"].heartbeats.interval) == (False, 1.0)
        assert "emit.heartbeats.enabled" in {row.key for row in found.defaults}

    def test_those_of_a_direction_that_copies_nothing_count(self, tmp_path: Path) -> None:
        assert flow(tmp_path, "b->a.enabled=false", "b->a.emit.heartbeats.enabled=true").heartbeats.enabled

    def test_those_that_no_flow_needs_are_left_out(self, tmp_path: Path) -> None:
        found = converted(tmp_path, f"{SHORT}a->b.emit.heartbeats.enabled=true\n")
        assert not flows(tmp_path, found)["a->b"].heartbeats.enabled
        assert fates(found)["a->b.emit.heartbeats.enabled"] == "not needed"
        assert "heartbeats on b, which a flow b->a needs" in why(found, "a->b.emit.heartbeats.enabled")
        assert "emit.heartbeats.enabled" in {row.key for row in found.defaults}

    def test_a_direction_wins_over_the_whole_file(self, tmp_path: Path) -> None:
        text = f"{BOTH}emit.heartbeats.enabled=true\nb->a.emit.heartbeats.enabled=false\n"
        both = flows(tmp_path, converted(tmp_path, text))
        assert (both["a->b"].heartbeats.enabled, both["b->a"].heartbeats.enabled) == (False, True)


def connectors(**others: dict[str, Any]) -> str:
    """JSON of connectors: a source connector a->b, and more. Keys of it are under the name `source`."""
    tree = []
    kinds = {
        "source": ("Source", "a", "b"),
        "checkpoint": ("Checkpoint", "a", "b"),
        "heartbeat": ("Heartbeat", "b", "a"),
    }
    for name in dict.fromkeys(["source", *others]):
        kind, source, target = kinds[name]
        tree.append(
            {
                "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
                "source.cluster.alias": source,
                "target.cluster.alias": target,
                "source.cluster.bootstrap.servers": f"{source}:1",
                "target.cluster.bootstrap.servers": f"{target}:1",
                **others.get(name, {}),
            }
        )
    return json.dumps(tree)


class TestConnectors:
    """Kafka Connect's connectors: each reads its own settings only."""

    def run(self, folder: Path, **others: dict[str, Any]) -> tuple[Conversion, Flow]:
        found = converted(folder, connectors(**others), "mm2.json")
        return found, flows(folder, found)["a->b"]

    def test_a_heartbeat_connector_asks_for_heartbeats(self, tmp_path: Path) -> None:
        found, one = self.run(tmp_path, heartbeat={})
        assert one.heartbeats.enabled
        assert fates(found)["[1].connector.class"] == "different"
        found, one = self.run(tmp_path, heartbeat={"emit.heartbeats.enabled": False})
        assert not one.heartbeats.enabled
        assert why(found, "[1].connector.class") == "[1].emit.heartbeats.enabled takes precedence"

    def test_without_one_mirrormaker_has_no_heartbeats_either(self, tmp_path: Path) -> None:
        found, one = self.run(tmp_path)
        assert not one.heartbeats.enabled
        assert not [row for row in found.defaults if "heartbeats" in row.key]

    def test_one_that_writes_to_the_target_is_of_no_use_to_the_flow(self, tmp_path: Path) -> None:
        there = {"source.cluster.alias": "a", "target.cluster.alias": "b"}
        found, one = self.run(tmp_path, heartbeat=there)
        assert not one.heartbeats.enabled
        assert fates(found)["[1].connector.class"] == "not needed"

    def test_without_a_checkpoint_connector_what_differs_is_said(self, tmp_path: Path) -> None:
        found, _ = self.run(tmp_path)
        (row,) = [row for row in found.defaults if "checkpoints" in row.key]
        assert "no checkpoint connector for a->b" in row.why
        found, _ = self.run(tmp_path, checkpoint={})
        assert not [row for row in found.defaults if "checkpoints" in row.key]

    def test_what_the_other_connector_reads_does_not_count(self, tmp_path: Path) -> None:
        wrong = {"sync.group.offsets.enabled": True, "emit.heartbeats.enabled": True, "groups": "x"}
        found, one = self.run(tmp_path, source=wrong)
        assert (one.groups.sync, one.groups.include, one.heartbeats.enabled) == (False, (".*",), False)
        assert {fates(found)[f"[0].{name}"] for name in wrong} == {"not needed"}
        assert "MirrorCheckpointConnector only" in why(found, "[0].groups")

    def test_the_checkpoint_connectors_topics_are_not_the_flows(self, tmp_path: Path) -> None:
        found, one = self.run(tmp_path, source={"topics": "orders"}, checkpoint={"topics": "orders, x"})
        assert one.topics == ("orders",)
        assert fates(found)["[1].topics"] == "not needed"


class TestHalted:
    """Kafka Connect tells a connector's state beside its configuration, and takes a first one with it (KIP-980)."""

    def created(self, folder: Path, kind: str, state: str) -> Conversion:
        """The requests that create the connectors."""
        others: dict[str, dict[str, Any]] = {"checkpoint": {"sync.group.offsets.enabled": True}, "heartbeat": {}}
        tree = [
            {"name": name, "config": config, **({"initial_state": state} if name == kind else {})}
            for name, config in zip(["source", *others], json.loads(connectors(**others)), strict=True)
        ]
        return converted(folder, json.dumps(tree), "mm2.json")

    @pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
    def test_the_state_of_a_new_connector(self, tmp_path: Path, state: str) -> None:
        found = self.created(tmp_path, "source", state)
        assert fates(found)["[0].initial_state"] == "not possible" and "mirror pause" in found.text
        one = flows(tmp_path, found)["a->b"]
        assert (one.groups.checkpoints, one.groups.sync, one.heartbeats.enabled) == (True, True, True)
        found = self.created(tmp_path, "checkpoint", state)
        one = flows(tmp_path, found)["a->b"]
        assert (one.groups.checkpoints, one.groups.sync, one.heartbeats.enabled) == (False, False, True)
        assert fates(found)["[1].initial_state"] == "different" and found.whole
        found = self.created(tmp_path, "heartbeat", state)
        one = flows(tmp_path, found)["a->b"]
        assert (one.groups.checkpoints, one.groups.sync, one.heartbeats.enabled) == (True, True, False)

    def test_one_that_is_to_run(self, tmp_path: Path) -> None:
        found = self.created(tmp_path, "source", "RUNNING")
        assert fates(found)["[0].initial_state"] == "not needed" and found.whole

    @pytest.mark.parametrize("state, fate", [("PAUSED", "not possible"), ("FAILED", "not needed")])
    def test_the_state_as_rest_tells_it(self, tmp_path: Path, state: str, fate: str) -> None:
        (config,) = json.loads(connectors())
        tree = {"mine": {"info": {"name": "mine", "config": config}, "status": {"connector": {"state": state}}}}
        found = converted(tmp_path, json.dumps(tree), "mm2.json")
        assert fates(found)["mine.status"] == fate

    @pytest.mark.parametrize("status", [{}, [], None, {"connector": []}, {"connector": {"state": 1}}])
    def test_a_status_without_a_state(self, tmp_path: Path, status: Any) -> None:
        (config,) = json.loads(connectors())
        found = converted(tmp_path, json.dumps({"mine": {"info": {"config": config}, "status": status}}), "mm2.json")
        assert fates(found)["mine.status"] == "not needed" and found.whole


RESOURCE = """
kind: KafkaMirrorMaker2
spec:
  target: {alias: b, bootstrapServers: "b:1"}
  mirrors:
  - source: {alias: a, bootstrapServers: "a:1"}
    sourceConnector: {}
    groupsPattern: "billing|shop.*"
    heartbeatConnector: {config: {heartbeats.topic.replication.factor: 3}}
    checkpointConnector:
      config:
        groups: config
        sync.group.offsets.enabled: true
        sync.group.offsets.interval.seconds: 30
    groupsBlacklistPattern: old
    groupsExcludePattern: "billing-test"
"""


def test_a_resource(tmp_path: Path) -> None:
    found = converted(tmp_path, RESOURCE, "mm2.yaml")
    one = flows(tmp_path, found)["a->b"]
    assert (one.groups.include, one.groups.exclude) == (("billing|shop.*",), ("billing-test",))
    assert (one.groups.sync, one.groups.interval, one.heartbeats.enabled) == (True, 30.0, False)
    told = {key.removeprefix("spec.mirrors[0]."): fate for key, fate in fates(found).items()}
    assert told["groupsPattern"] == told["groupsExcludePattern"] == "renamed"
    assert told["groupsBlacklistPattern"] == told["checkpointConnector.config.groups"] == "not needed"
    assert told["heartbeatConnector"] == "not needed"
    assert told["heartbeatConnector.config.heartbeats.topic.replication.factor"] == "not needed"
    assert "heartbeats on b" in why(found, "spec.mirrors[0].heartbeatConnector")
    assert not [row for row in found.defaults if "heartbeats" in row.key or "checkpoints" in row.key]


def test_a_resource_without_a_checkpoint_connector(tmp_path: Path) -> None:
    text = RESOURCE.partition("    heartbeatConnector")[0]
    assert "emit.checkpoints.enabled" in {row.key for row in converted(tmp_path, text, "mm2.yaml").defaults}


NAMES = st.sampled_from([f"{flow}{row.name}" for row in ROWS for flow in ("", "a->b.", "b->a.")])
VALUES = st.sampled_from(["true", "false", "", "1", "3", "-1", "60", "x", "a.b, c"])


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=12))
def test_whatever_is_combined_our_loader_takes_it(tmp_path: Path, more: dict[str, str]) -> None:
    text = BOTH + "".join(f"{key}={value}\n" for key, value in more.items())
    found = converted(tmp_path, text)
    assert set(flows(tmp_path, found)) == {"a->b", "b->a"}
    assert sorted(row.key for row in found.rows) == sorted({entry.key for entry in parse(text)})
    assert all(row.ours or row.why for row in found.rows)
    assert all(row.ours for row in found.rows if row.fate in ("same", "renamed"))
