"""Several connectors of one class with the same aliases are one flow, and nothing of any of them gets lost silently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror.cli import cli
from mirror.commands.convert import united
from mirror.commands.convert.command import Conversion
from mirror.settings import Flow
from tests.unit.commands.convert.test_convert import converted, fates, loaded, why
from tests.unit.commands.convert.test_strimzi import of, resource

Config = dict[str, Any]


def connector(kind: str = "Source", source: str = "a", target: str = "b", **config: Any) -> Config:
    """One connector's configuration; a _ in a key is a dot."""
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        "source.cluster.bootstrap.servers": f"{source}:1",
        "target.cluster.bootstrap.servers": f"{target}:1",
        **{name.replace("_", "."): value for name, value in config.items()},
    }


def run(folder: Path, *connectors: Config) -> tuple[Conversion, Flow]:
    found = converted(folder, json.dumps(connectors), "mm2.json")
    assert found.problems == ()
    first, *_ = loaded(folder, found).flows
    return found, first


def written(found: Conversion) -> Config:
    """The first flow as it is written, without its ends."""
    tree = yaml.safe_load(found.text)["flows"][0]
    return {name: value for name, value in tree.items() if name not in ("source", "target")}


def test_the_topics_of_all_are_copied(tmp_path: Path) -> None:
    found, flow = run(tmp_path, connector(topics="x", tasks_max=3), connector(topics="y,z.*", tasks_max=4))
    assert (flow.name, flow.topics) == ("a->b", ("x", "y", "z.*"))
    assert fates(found)["[0].topics"] == fates(found)["[1].topics"] == "different" and found.whole
    assert why(found, "[0].topics") == united.ONE_FLOW
    assert written(found) == {"topics": ["x", "y", "z.*"]}


def test_one_that_names_none_has_all(tmp_path: Path) -> None:
    _, flow = run(tmp_path, connector(topics="x"), connector())
    assert flow.topics == ("x", ".*")


def test_a_name_with_a_dot_is_said_to_be_a_name(tmp_path: Path) -> None:
    found, _ = run(tmp_path, connector(topics="x.y"), connector(topics="z"))
    assert "a name without special characters is a name" in why(found, "[1].topics")


def test_what_they_say_alike_is_carried(tmp_path: Path) -> None:
    same: Config = {"topics_exclude": "q, r", "offset_lag_max": 7, "replication_factor": 3}
    found, flow = run(
        tmp_path, connector(topics="x", **same), connector(topics="y", **same | {"topics_exclude": "r,q"})
    )
    assert (flow.topics, set(flow.exclude), flow.offset_lag_max) == (("x", "y"), {"q", "r"}, 7)
    assert found.whole


@pytest.mark.parametrize(
    "key, value",
    [
        ("sync.topic.configs.enabled", True),
        ("errors.tolerance", "none"),
        ("exactly.once.support", "required"),
        ("replication.policy.class", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"),
        ("source.consumer.auto.offset.reset", "earliest"),
        ("topics.exclude", r".*[\-\.]internal, .*\.replica, __.*"),
    ],
)
def test_what_is_the_default_of_the_other_is_the_same(tmp_path: Path, key: str, value: Any) -> None:
    found, _ = run(tmp_path, connector(topics="x") | {key: value}, connector(topics="y"))
    assert found.whole, found.rows


@pytest.mark.parametrize(
    "key, value",
    [
        ("replication.policy.class", "IdentityReplicationPolicy"),
        ("replication.policy.separator", "_"),
        ("consumer.auto.offset.reset", "latest"),
        ("source.consumer.auto.offset.reset", "latest"),
        ("producer.override.compression.type", "zstd"),
        ("errors.tolerance", "all"),
        ("sync.topic.configs.enabled", False),
        ("sync.topic.acls.enabled", False),
        ("replication.factor", 3),
        ("offset.lag.max", 5),
    ],
)
@pytest.mark.parametrize("where", [0, 1])
def test_what_differs_is_for_a_person_to_decide(tmp_path: Path, key: str, value: Any, where: int) -> None:
    connectors = [connector(topics="x"), connector(topics="y")]
    connectors[where][key] = value
    found, _ = run(tmp_path, *connectors)
    assert fates(found)[f"[{where}].{key}"] == "not possible" and not found.whole
    assert written(found) == {"topics": ["x", "y"]}, "mirror's default stands"
    assert f"#   [{where}].{key}" in found.text
    path = tmp_path / "again.json"
    path.write_text(json.dumps(connectors))
    assert CliRunner().invoke(cli, ["convert", str(path), "--strict"]).exit_code == 1


def test_where_both_say_it_both_are_told(tmp_path: Path) -> None:
    found, _ = run(tmp_path, connector(offset_lag_max=5), connector(offset_lag_max=6))
    assert fates(found)["[0].offset.lag.max"] == fates(found)["[1].offset.lag.max"] == "not possible"
    assert "offset_lag_max" not in written(found)


@pytest.mark.parametrize("name", ["topics.exclude", "topics.blacklist"])
def test_what_any_of_them_excludes_is_not_copied_and_a_person_decides(tmp_path: Path, name: str) -> None:
    found, flow = run(tmp_path, connector(topics=".*") | {"topics.exclude": "secret.*"}, connector() | {name: "q"})
    assert flow.exclude == ("secret.*", "q")
    assert {fates(found)["[0].topics.exclude"], fates(found)[f"[1].{name}"]} == {"not possible"}
    found, flow = run(tmp_path, connector(topics="x"), connector(topics_exclude="q"))
    assert flow.exclude == (r".*[\-\.]internal", r".*\.replica", "__.*", "q")
    assert fates(found)["[1].topics.exclude"] == "not possible" and "[1].topics.exclude" in found.text


def test_connectors_that_look_after_groups(tmp_path: Path) -> None:
    first = connector("Checkpoint", groups="g", sync_group_offsets_enabled=True)
    second = connector("Checkpoint", groups="h.*", sync_group_offsets_enabled=True)
    found, flow = run(tmp_path, connector(), first, second)
    assert (flow.groups.include, flow.groups.sync, found.whole) == (("g", "h.*"), True, True)
    found, flow = run(tmp_path, connector(), first, second | {"sync.group.offsets.enabled": False})
    assert not flow.groups.sync and not found.whole
    assert fates(found)["[1].sync.group.offsets.enabled"] == "not possible"
    found, flow = run(tmp_path, connector(), first | {"groups": ""}, second)
    assert fates(found)["[1].groups"] == "not possible"


def test_what_only_the_other_connector_says_does_not_replace_what_the_copying_one_says(tmp_path: Path) -> None:
    checkpoint = connector("Checkpoint", errors_tolerance="all", replication_policy_separator="-")
    source = connector(errors_tolerance="none", replication_policy_separator="_")
    for order in ([source, checkpoint], [checkpoint, source]):
        found, flow = run(tmp_path, *order)
        assert (flow.separator, flow.on_poison_record) == ("_", "fail")
        assert "takes precedence" in why(found, f"[{order.index(checkpoint)}].replication.policy.separator")


def test_servers_of_one_cluster(tmp_path: Path) -> None:
    first = connector(topics="x") | {"source.cluster.bootstrap.servers": "a:1,a2:1"}
    found, _ = run(tmp_path, first, connector(topics="y"))
    assert found.whole and "names the same cluster" in why(found, "[0].source.cluster.bootstrap.servers")


def test_other_servers_may_be_another_cluster(tmp_path: Path) -> None:
    """Without aliases all connectors have the same ones: source and target."""
    first, second = connector("Source", "source", "target"), connector("Source", "source", "target")
    second["source.cluster.bootstrap.servers"] = "other:1"
    found, _ = run(tmp_path, first, second)
    assert fates(found)["[0].source.cluster.bootstrap.servers"] == "not possible" and not found.whole


def test_another_login_is_for_a_person_to_decide(tmp_path: Path) -> None:
    key = "source.cluster.ssl.keystore.key"
    found, _ = run(tmp_path, connector(topics="x") | {key: "one"}, connector(topics="y") | {key: "two"})
    assert [fates(found)[f"[{number}].{key}"] for number in (0, 1)] == ["not possible", "different"]


def test_a_property_of_one_connector_holds_for_all_topics_of_the_flow(tmp_path: Path) -> None:
    key = "source.consumer.fetch.min.bytes"
    found, flow = run(tmp_path, connector(topics="x") | {key: 7}, connector(topics="y"))
    assert flow.source.consumer == {"fetch.min.bytes": "7"}
    assert fates(found)[f"[0].{key}"] == "different" and "all topics of the flow" in why(found, f"[0].{key}")
    found, _ = run(tmp_path, connector(topics="x") | {key: 7}, connector(topics="y") | {key: 7})
    assert fates(found)[f"[0].{key}"] == "same"


def test_flows_from_one_cluster_have_each_its_own_start(tmp_path: Path) -> None:
    key = "source.consumer.auto.offset.reset"
    connectors = [
        connector("Source", "a", target) | {key: value} for target, value in (("b", "latest"), ("c", "latest"))
    ]
    found, _ = run(tmp_path, *connectors)
    assert [flow.start for flow in loaded(tmp_path, found).flows] == ["latest", "latest"]
    found, _ = run(tmp_path, connectors[0], connectors[1] | {key: "earliest"})
    assert [flow.start for flow in loaded(tmp_path, found).flows] == ["latest", "earliest"] and found.whole


def test_mirrors_of_a_resource(tmp_path: Path) -> None:
    tree = resource(topicsPattern="x", groupsPattern="g", checkpointConnector={})
    other = resource(topicsPattern="y", groupsPattern="h", checkpointConnector={})["spec"]["mirrors"][0]
    tree["spec"]["mirrors"].append(other)
    found = of(tmp_path, tree)
    assert written(found) == {"topics": ["x", "y"], "groups": {"include": ["g", "h"]}} and found.whole
    other["sourceConnector"] = {"config": {"topics": "config", "replication.policy.separator": "-"}}
    found = of(tmp_path, tree)
    assert written(found)["topics"] == ["x", "y"] and "separator" not in written(found)
    assert fates(found)["spec.mirrors[1].sourceConnector.config.replication.policy.separator"] == "not possible"
    assert fates(found)["spec.mirrors[1].sourceConnector.config.topics"] == "not needed"


CHOICES: dict[str, list[Any]] = {
    "topics": ["x", "y", "z", ".*"],
    "topics.exclude": ["q", "", "r.*"],
    "topics.blacklist": ["q", "s"],
    "groups": ["g", "h"],
    "replication.policy.class": ["DefaultReplicationPolicy", "IdentityReplicationPolicy", "x.Mine"],
    "replication.policy.separator": ["_", "."],
    "errors.tolerance": ["all", "none"],
    "sync.topic.acls.enabled": [True, False],
    "emit.checkpoints.enabled": [True, False],
    "sync.group.offsets.enabled": [True, False],
    "emit.checkpoints.interval.seconds": [5, 60],
    "sync.group.offsets.interval.seconds": [5, 60],
    "offset-syncs.topic.replication.factor": [1, 3],
    "source.consumer.auto.offset.reset": ["latest", "earliest"],
    "tasks.max": [1, 2],
}
CONFIGS = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in CHOICES.items()})
LISTS = ("topics", "exclude", "include")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(CONFIGS, min_size=2, max_size=3), st.sampled_from(["Source", "Checkpoint"]))
def test_each_connector_alone_is_the_same_or_a_person_decides(tmp_path: Path, configs: list[Config], kind: str) -> None:
    """No topic or group gets lost, and if nothing is to be decided, each connector gets what it had alone."""
    parts = [connector(kind) | config for config in configs]
    source = [connector()] if kind == "Checkpoint" else []
    found, flow = run(tmp_path, *source, *parts)
    singles = [run(tmp_path, *source, part)[1] for part in parts]
    assert set(flow.topics) == {topic for one in singles for topic in one.topics}
    if found.whole:
        for one in singles:
            assert set(one.groups.include) <= set(flow.groups.include)
            assert set(one.exclude) == set(flow.exclude)
            for name in ("start", "replication_policy", "separator", "on_poison_record"):
                assert getattr(one, name) == getattr(flow, name), name
            for name in ("sync", "checkpoints", "interval"):
                assert getattr(one.groups, name) == getattr(flow.groups, name), name
    else:
        assert [row for row in found.rows if row.fate == "not possible"]
