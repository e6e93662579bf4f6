"""Whatever keys the input has, each has exactly one row in the account."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror.commands.convert.command import Conversion
from mirror.commands.convert.properties import parse
from mirror.commands.convert.table import CLIENTS, CONNECTORS, STRIMZI, WORKERS
from tests.unit.commands.convert.test_convert import SHORT, converted, missing

# Every name of the tables. What stands for many names is given one of them.
NAMES = sorted(
    {name.replace("*", "x") for name in (*CONNECTORS, *WORKERS, *CLIENTS) if not name.startswith("<")} | {"strange.key"}
)
VALUED = {"bootstrap.servers": "a:1", "source.cluster.bootstrap.servers": "a:1", "clusters": "a,b,c"}
VALUES = st.sampled_from(["x", "true", "false", "3", "-1", "a.b, c", "${env:X}x"])
LISTS = ("topics", "groups", "exclude", "blacklist")  # what can't be carried there is refused as a whole
CLIENT = ("consumer.", "producer.", "admin.")
OF_FLOW = [
    *("", "source.", "target.", "source.cluster.", "target.cluster.", "source.consumer.", "target.producer."),
    *(*CLIENT, "consumer.override.", "producer.override.", "admin.override.", "source.admin."),
    *("source.producer.", "target.consumer."),
]
# In the file a->b is enabled, b->a is not, and no flow has c; x is no cluster.
PREFIXES = {
    "": ("", *CLIENT),
    **{alias: [f"{alias}.{role}" for role in ("", *CLIENT)] for alias in "abcx"},
    **{flow: [f"{flow}.{each}" for each in OF_FLOW] for flow in ("a->b", "b->a", "a->x", "x->b", "a->c")},
}
ENABLING = ("enabled", "b->a.enabled", "a->c.enabled", "connector.class")  # they would make it another input
KINDS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
Values = dict[str, str]


def value(name: str, other: str = "x") -> str:
    """One that the input may have without being refused as a whole."""
    if any(each in name for each in LISTS):
        return "x"
    return VALUED.get(name, "a:1" if name.endswith("bootstrap.servers") else other)


def assert_once(found: Conversion, keys: list[str]) -> None:
    """Each key has a row, and no row has another key."""
    assert Counter(row.key for row in found.rows) == Counter(keys)
    assert all(row.ours or row.why for row in found.rows), [row for row in found.rows if not (row.ours or row.why)]


def in_file(folder: Path, values: Values) -> None:
    own = {entry.key for entry in parse(SHORT)}
    more = "".join(f"{key}={text}\n" for key, text in values.items() if key not in own and key not in ENABLING)
    text = SHORT.replace("clusters=a,b\n", "clusters=a,b,c\n") + more
    assert_once(converted(folder, text), [entry.key for entry in parse(text)])


def in_connectors(folder: Path, *connectors: tuple[str, Values]) -> None:
    """A source connector a->b, and these."""
    own = {
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
    }
    configs = [{**values, **own, "connector.class": kind} for kind, values in [(KINDS[0], {}), *connectors]]
    tree = [{"name": f"n{number}", "config": config} for number, config in enumerate(configs)]
    keys = [f"[{number}].config.{name}" for number, config in enumerate(configs) for name in config]
    keys += [f"[{number}].name" for number in range(len(tree))]
    assert_once(converted(folder, json.dumps(tree), "mm2.json"), keys)


def in_resource(folder: Path, tree: dict[str, Any]) -> None:
    found = converted(folder, yaml.safe_dump(tree), "mm2.yaml")
    keys = [row.key for row in found.rows]
    assert len(keys) == len(set(keys)) and missing(tree, "", set(keys)) == []
    assert all(row.ours or row.why for row in found.rows)


def resource(config: Values, form: str) -> dict[str, Any]:
    """All configurations of a resource."""
    mirror: dict[str, Any] = {
        name: {"config": dict(config)} for name in ("sourceConnector", "checkpointConnector", "heartbeatConnector")
    }
    if form == "v1":
        source = {"alias": "a", "bootstrapServers": "a:1", "config": config}
        target = {"alias": "b", "bootstrapServers": "b:1", "config": config}
        spec: dict[str, Any] = {"target": target, "mirrors": [{"source": source, **mirror}]}
    else:
        aliases = {alias: {"alias": alias, "bootstrapServers": f"{alias}:1", "config": dict(config)} for alias in "abc"}
        mirrors = [{"sourceCluster": "a", "targetCluster": "b", **mirror}]
        spec = {"connectCluster": "b", "clusters": list(aliases.values()), "mirrors": mirrors}
    return {"kind": "KafkaMirrorMaker2", "spec": spec}


def all_keys(prefixes: Iterable[str]) -> Values:
    """Every name after each of the prefixes."""
    return {f"{each}{name}": value(name) for each in prefixes for name in NAMES}


@pytest.mark.parametrize("level", PREFIXES)
def test_all_keys_of_a_file(tmp_path: Path, level: str) -> None:
    in_file(tmp_path, all_keys(PREFIXES[level]))


@pytest.mark.parametrize("kind", KINDS)
def test_all_keys_of_a_connector(tmp_path: Path, kind: str) -> None:
    in_connectors(tmp_path, (kind, all_keys(OF_FLOW)))


@pytest.mark.parametrize("form", ["v1", "v1beta2"])
def test_all_keys_of_a_resources_configurations(tmp_path: Path, form: str) -> None:
    in_resource(tmp_path, resource(all_keys(["", *CLIENT, "consumer.override.", "source.cluster."]), form))


@pytest.mark.parametrize("form", ["v1", "v1beta2"])
def test_all_keys_of_a_resource(tmp_path: Path, form: str) -> None:
    tree = resource({}, form)
    spec = tree["spec"]
    for name in STRIMZI:
        place, _, key = name.partition(".")
        if place == "spec" and "." not in key and key != "connectCluster":
            spec[key] = {"x": [1, {}]}
        elif place == "spec" and form == "v1":
            spec["target"][key.removeprefix("target.")] = "x"
        elif place == "<connector>":
            for each in ("sourceConnector", "checkpointConnector", "heartbeatConnector"):
                spec["mirrors"][0][each][key] = {"enabled": True} if key == "autoRestart" else "x"
        elif place == "<mirror>" and "Pattern" in key:
            spec["mirrors"][0][key] = "x"
        elif not key:
            tree.setdefault(name, {"x": 1})
    in_resource(tmp_path, tree)


@pytest.mark.parametrize("value", [None, [], {}, {"x": {}}])
@pytest.mark.parametrize("name", ["tls", "authentication", "config", "strange"])
def test_empty_parts_of_a_cluster(tmp_path: Path, name: str, value: Any) -> None:
    if (value is None or isinstance(value, list)) and name in ("authentication", "config"):
        return  # refused as a whole
    if name == "config" and value:
        return
    tree = resource({}, "v1")
    tree["spec"]["target"][name] = value
    in_resource(tmp_path, tree)


FILE_KEYS = st.builds(
    lambda prefix, name: f"{prefix}{name}",
    st.sampled_from(sorted(each for level in PREFIXES.values() for each in level)),
    st.sampled_from(NAMES),
)
MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@MANY
@given(st.dictionaries(FILE_KEYS, VALUES, max_size=20))
def test_whatever_a_file_has(tmp_path: Path, values: Values) -> None:
    in_file(tmp_path, {key: value(key, text) for key, text in values.items()})


CONNECTOR_KEYS = st.builds(lambda prefix, name: f"{prefix}{name}", st.sampled_from(OF_FLOW), st.sampled_from(NAMES))


@MANY
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(CONNECTOR_KEYS, VALUES, max_size=8)), max_size=4))
def test_whatever_connectors_have(tmp_path: Path, connectors: list[tuple[str, Values]]) -> None:
    in_connectors(
        tmp_path, *((kind, {key: value(key, text) for key, text in values.items()}) for kind, values in connectors)
    )
