"""Strimzi's resource: which keys it has, and which connectors it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.commands.convert import halted
from mirror.commands.convert.command import Conversion
from mirror.commands.convert.table import STRIMZI
from tests.unit.commands.convert.test_convert import converted, fates, refused, why

# KafkaMirrorMaker2Spec, KafkaMirrorMaker2TargetClusterSpec and KafkaMirrorMaker2ConnectorSpec of Strimzi's API, v1beta2
# and v1, without what the code reads itself.
KNOWN = """
spec.version spec.replicas spec.image spec.resources spec.livenessProbe spec.readinessProbe spec.jvmOptions
spec.jmxOptions spec.logging spec.clientRackInitImage spec.rack spec.tracing spec.template spec.metricsConfig
spec.externalConfiguration spec.connectCluster
spec.target.groupId spec.target.configStorageTopic spec.target.offsetStorageTopic spec.target.statusStorageTopic
<connector>.tasksMax <connector>.version <connector>.pause <connector>.autoRestart <connector>.state
<connector>.listOffsets <connector>.alterOffsets
"""


def resource(**mirror: Any) -> dict[str, Any]:
    return {
        "kind": "KafkaMirrorMaker2",
        "spec": {
            "target": {"alias": "b", "bootstrapServers": "b:1"},
            "mirrors": [{"source": {"alias": "a", "bootstrapServers": "a:1"}, "sourceConnector": {}, **mirror}],
        },
    }


def of(folder: Path, tree: dict[str, Any]) -> Conversion:
    return converted(folder, yaml.safe_dump(tree), "mm2.yaml")


def test_the_table_has_each_key_of_the_api() -> None:
    assert [name for name in KNOWN.split() if name not in STRIMZI] == []
    assert [name for name in STRIMZI if name.endswith("*")] == [], "what fits everything hides typing errors"


@pytest.mark.parametrize("name", ["replicas", "image", "resources", "template", "jmxOptions", "clientRackInitImage"])
def test_what_describes_the_deployment_is_not_needed(tmp_path: Path, name: str) -> None:
    tree = resource()
    tree["spec"][name] = {"x": 1}
    found = of(tmp_path, tree)
    assert fates(found)[f"spec.{name}"] == "not needed" and found.whole


UNKNOWN = {
    "spec.miirors": lambda tree: tree["spec"].update(miirors=[]),
    "spec.target.groupid": lambda tree: tree["spec"]["target"].update(groupid="x"),
    "spec.mirrors[0].topicPattern": lambda tree: tree["spec"]["mirrors"][0].update(topicPattern="x"),
    "spec.mirrors[0].sourceConnector.confg": lambda tree: tree["spec"]["mirrors"][0].update(
        sourceConnector={"confg": {"offset.lag.max": 1}}
    ),
    "spec.mirrors[0].source.boostrapServers": lambda tree: tree["spec"]["mirrors"][0]["source"].update(
        boostrapServers="x"
    ),
    "spec.target.tls.trustedCertificate[0].secretName": lambda tree: tree["spec"]["target"].update(
        tls={"trustedCertificate": [{"secretName": "x"}]}
    ),
    "spec.target.authentication.confg.sasl.mechanism": lambda tree: tree["spec"]["target"].update(
        authentication={"type": "custom", "sasl": True, "confg": {"sasl.mechanism": "PLAIN"}}
    ),
    "sepc": lambda tree: tree.update(sepc=1),
}


@pytest.mark.parametrize("key", UNKNOWN)
def test_a_key_that_the_resource_does_not_have_is_said(tmp_path: Path, key: str) -> None:
    tree = resource()
    UNKNOWN[key](tree)
    found = of(tmp_path, tree)
    assert fates(found)[key] == "not possible" and why(found, key).startswith("unknown key")
    assert not found.whole and f"#   {key}\n" in found.text


@pytest.mark.parametrize("place, fate, exactly_once", [("target", "renamed", True), ("source", "not needed", None)])
def test_exactly_once_of_the_workers_is_that_of_the_target(
    tmp_path: Path, place: str, fate: str, exactly_once: bool | None
) -> None:
    tree = resource()
    cluster = tree["spec"]["target"] if place == "target" else tree["spec"]["mirrors"][0]["source"]
    cluster["config"] = {"exactly.once.source.support": "enabled"}
    found = of(tmp_path, tree)
    key = {"target": "spec.target", "source": "spec.mirrors[0].source"}[place]
    assert fates(found)[f"{key}.config.exactly.once.source.support"] == fate
    assert yaml.safe_load(found.text)["flows"][0].get("exactly_once") is exactly_once


def test_what_mirror_adopt_needs_of_the_workers(tmp_path: Path) -> None:
    tree = resource()
    tree["spec"]["target"] |= {"groupId": "g", "offsetStorageTopic": "o", "configStorageTopic": "c"}
    found = of(tmp_path, tree)
    assert why(found, "spec.target.offsetStorageTopic").endswith("give it to mirror adopt: --offsets-topic o")
    assert why(found, "spec.target.groupId").endswith("give it to mirror adopt: --worker-group g")
    assert "adopt" not in why(found, "spec.target.configStorageTopic")
    tree = resource()
    tree["spec"]["target"]["config"] = {"offset.storage.topic": "o", "group.id": "g"}
    found = of(tmp_path, tree)
    assert why(found, "spec.target.config.offset.storage.topic").endswith("--offsets-topic o")
    assert why(found, "spec.target.config.group.id").endswith("--worker-group g")


HALTED = [{"pause": True}, {"state": "paused"}, {"state": "stopped"}, {"state": "stopped", "pause": False}]


@pytest.mark.parametrize("connector", HALTED)
def test_a_source_connector_that_does_not_run_is_for_a_person_to_decide(
    tmp_path: Path, connector: dict[str, Any]
) -> None:
    found = of(tmp_path, resource(sourceConnector=connector))
    key = f"spec.mirrors[0].sourceConnector.{next(iter(connector))}"
    assert fates(found)[key] == "not possible" and not found.whole
    assert f"#   {key}: {halted.WOULD_RUN}" in found.text
    assert "mirror pause" in halted.WOULD_RUN and "take the flow out" in halted.WOULD_RUN


@pytest.mark.parametrize("connector", [{"pause": False}, {"state": "running"}, {"state": "running", "pause": True}])
@pytest.mark.parametrize("name", ["sourceConnector", "checkpointConnector", "heartbeatConnector"])
def test_a_connector_that_runs_is_nothing_to_decide(tmp_path: Path, name: str, connector: dict[str, Any]) -> None:
    found = of(tmp_path, resource(**{name: connector}))
    assert {fates(found)[f"spec.mirrors[0].{name}.{each}"] for each in connector} == {"not needed"} and found.whole


@pytest.mark.parametrize("connector", HALTED)
def test_a_checkpoint_connector_that_does_not_run_writes_no_checkpoints_and_syncs_no_group(
    tmp_path: Path, connector: dict[str, Any]
) -> None:
    config = {"sync.group.offsets.enabled": True, "emit.checkpoints.interval.seconds": 5}
    found = of(tmp_path, resource(checkpointConnector={**connector, "config": config}))
    key = "spec.mirrors[0].checkpointConnector"
    assert yaml.safe_load(found.text)["flows"][0]["groups"] == {"checkpoints": False}
    assert fates(found)[f"{key}.{next(iter(connector))}"] == "different"
    assert {why(found, f"{key}.config.{name}") for name in config} == {halted.IDLE}
    assert found.whole


@pytest.mark.parametrize("connector", HALTED)
def test_a_heartbeat_connector_that_does_not_run_writes_no_heartbeats(
    tmp_path: Path, connector: dict[str, Any]
) -> None:
    tree = resource()
    spec = tree["spec"]
    spec["clusters"] = [{"alias": alias, "bootstrapServers": f"{alias}:1"} for alias in "ab"]
    del spec["target"]
    config = {"config": {"emit.heartbeats.interval.seconds": 5}}
    spec["mirrors"] = [
        {"sourceCluster": "a", "targetCluster": "b", "sourceConnector": {}},
        {"sourceCluster": "b", "targetCluster": "a", "sourceConnector": {}, "heartbeatConnector": config},
    ]
    first, *_ = yaml.safe_load(of(tmp_path, tree).text)["flows"]
    assert first["heartbeats"] == {"enabled": True, "interval": "5s"}, "those of b->a are for a->b"
    config |= connector
    found = of(tmp_path, tree)
    first, *_ = yaml.safe_load(found.text)["flows"]
    assert first["heartbeats"] == {"enabled": False}
    assert fates(found)[f"spec.mirrors[1].heartbeatConnector.{next(iter(connector))}"] == "different"


def test_a_mirror_without_a_source_connector_copies_nothing(tmp_path: Path) -> None:
    tree = resource(topicsPattern="x")
    other = resource(topicsPattern="y", checkpointConnector={})["spec"]["mirrors"][0]
    del other["sourceConnector"]
    tree["spec"]["mirrors"].append(other)
    found = of(tmp_path, tree)
    assert [flow["topics"] for flow in yaml.safe_load(found.text)["flows"]] == [["x"]] and found.whole
    assert fates(found)["spec.mirrors[1].topicsPattern"] == "not needed"
    other["source"] = {"alias": "c", "bootstrapServers": "c:1"}
    found = of(tmp_path, tree)
    assert len(yaml.safe_load(found.text)["flows"]) == 1 and list(yaml.safe_load(found.text)["clusters"]) == ["b", "a"]
    assert fates(found)["spec.mirrors[1].source.bootstrapServers"] == "not needed"
    tree["spec"]["mirrors"] = [other]
    assert "no mirror has a sourceConnector" in refused(tmp_path, yaml.safe_dump(tree), "mm2.yaml")
