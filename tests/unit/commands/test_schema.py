"""The JSON schema agrees with the example and with what `mirror validate` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mirror.commands.schema import schema

EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"
VALIDATOR = jsonschema.Draft202012Validator(schema())


def problems(tree: Any) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tree)]


def flow(**keys: Any) -> dict[str, Any]:
    return {
        "clusters": {"a": {"bootstrap.servers": "a:1", "any.property": 1}, "b": {"bootstrap.servers": "b:1"}},
        "flows": [{"source": "a", "target": "b", **keys}],
    }


def test_it_is_a_schema_and_the_example_is_valid() -> None:
    VALIDATOR.check_schema(schema())
    assert problems(yaml.safe_load(EXAMPLE.read_text())) == []


@pytest.mark.parametrize(
    "good",
    [
        {"tasks_max": None},
        {"tasks_max": 3},
        {"tasks_max": "${env:TASKS}"},
        {"compression": "${env:COMPRESSION}"},
        {"transaction_timeout": "1.5 m"},
        {"transaction_timeout": 30},
        {"batch_max_bytes": "10MB"},
        {"batch_max_bytes": 1024},
        {"throttle": None},
        {"throttle": "10MB"},
        {"throttle": 5000},
        {"start": "2025-01-31T12:00:00Z"},
        {"start": 0},
        {"replication_factor": -1},
    ],
)
def test_good(good: dict[str, Any]) -> None:
    assert problems(flow(**good)) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"tasks_max": 0},
        {"compression": "zip"},
        {"transaction_timeout": "soon"},
        {"batch_max_bytes": "10 megabytes"},
        {"throttle": "fast"},
        {"start": "yesterday"},
        {"replication_factor": 0},
        {"topics": []},
        {"topics": "orders"},
        {"topcis": ["orders"]},
        {"offset_lag_max": -1},
        {"separator": "/"},
    ],
)
def test_bad(bad: dict[str, Any]) -> None:
    assert problems(flow(**bad))


def test_flow_defaults_have_the_keys_of_a_flow_but_its_ends() -> None:
    assert (
        problems({**flow(), "flow_defaults": {"compression": "zstd", "groups": {"sync": True}, "tasks_max": 3}}) == []
    )
    for wrong in ({"source": "a"}, {"group": "g"}, {"compression": "zip"}, {"groups": {"snyc": True}}, ["a"]):
        assert problems({**flow(), "flow_defaults": wrong}), wrong


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"clusters": {}, "flows": []},
        {"clusters": {"a": {}}, "flows": [{"source": "a", "target": "b"}]},
        {"clusters": {"a": {"bootstrap.servers": "a:1", "consumer": 1}}, "flows": [{"source": "a", "target": "b"}]},
        {**flow(), "log": {"level": "loud"}},
        {**flow(), "http": {"port": 70_000}},
        {**flow(), "more": 1},
    ],
)
def test_bad_trees(tree: Any) -> None:
    assert problems(tree)


def test_every_key_says_what_it_does_and_what_it_must_be() -> None:
    models = [schema(), *schema()["$defs"].values()]
    nodes = {f"{model['title']}.{key}": node for model in models for key, node in model["properties"].items()}
    assert len(nodes) > 35
    for name, node in nodes.items():
        what, must, allowed = node["description"].partition(" Must be ")
        assert what.endswith("."), name
        assert (must and allowed.endswith(".")) or "$ref" in node, name


def test_the_schema_has_no_keyword_of_our_own() -> None:
    assert '"allowed"' not in json.dumps(schema())
