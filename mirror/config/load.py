"""Loads the configuration file: returns frozen settings, or raises every problem with file, line and key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mirror import settings
from mirror.config import located_yaml, model
from mirror.config.conflicts import flow_problems
from mirror.config.librdkafka import client_problems, servers
from mirror.config.located_yaml import Document, Location, Problem
from mirror.errors import ConfigError
from mirror.spark import security
from mirror.text import printable

_Model = TypeVar("_Model", bound=BaseModel)

_SPARK_CONF: Location = ("spark", "conf")


def load(path: Path, environ: Mapping[str, str] = os.environ) -> settings.Settings:
    """Load the settings from a YAML file, and check them without touching the network.

    Raises ConfigError with all problems in the order of their lines. No text of a problem holds a value that came from
    a `${...}`, or one whose key looks like a secret's.
    """
    document = located_yaml.read(path, environ)
    found, root = _check(document)
    if root is None or found:
        raise ConfigError(_lines(path, document, found))
    return _settings(root, _spark_references(document))


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors."""
    return model.RootModel.model_json_schema()


def _check(document: Document) -> tuple[list[Problem], model.RootModel | None]:
    tree, found = document.tree, list(document.problems)
    if not isinstance(tree, dict):
        if not found:
            keys = ", ".join(model.RootModel.model_fields)
            what = "the file is empty" if tree is None else "the top level is not a mapping"
            found.append(Problem((), f"{what}; it must be a mapping with the keys {keys}", 1))
        return found, None
    clusters = _mapping(tree.get("clusters"))
    context = {"aliases": list(clusters)}
    root, errors = _validated(model.RootModel, tree, context)
    broken = {problem.location for problem in found}
    explain = _Explainer(document)
    found += [problem for problem in map(explain, errors) if problem.location not in broken]
    broken = {problem.location for problem in found}
    for alias, cluster in clusters.items():
        found += client_problems(("clusters", alias), _mapping(cluster), document.references, broken)
    found += _across(tree, context)
    if root is not None:
        spark = security.problems(root.spark.master, root.spark.conf, _spark_references(document))
        found += [Problem((*_SPARK_CONF, key), text) for key, text in spark]
    return found, root


def _spark_references(document: Document) -> frozenset[str]:
    return frozenset(str(at[-1]) for at in document.references if at[:-1] == _SPARK_CONF)


def _validated(kind: type[_Model], value: Any, context: dict[str, Any]) -> tuple[_Model | None, list[ErrorDetails]]:
    try:
        return kind.model_validate(value, context=context), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _across(tree: dict[str, Any], context: dict[str, Any]) -> Iterator[Problem]:
    """Problems between flows, from all parts of the file that are valid; at most one for each place."""
    flows = tree.get("flows")
    listed = list(enumerate(flows[: model.FLOWS_MAX] if isinstance(flows, list) else []))
    known = {
        alias: servers(str(_mapping(cluster).get("bootstrap.servers") or ""))
        for alias, cluster in _mapping(tree.get("clusters")).items()
    }
    ends = {index: good for index, flow in listed if (good := _validated(model.EndsModel, flow, context)[0])}
    whole = {index: good for index, flow in listed if (good := _validated(model.FlowModel, flow, context)[0])}
    reported: set[Location] = set()
    for problem in flow_problems(ends, whole, known):
        if problem.location not in reported:
            reported.add(problem.location)
            yield problem


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Explainer:
    """Turns pydantic's errors into plain sentences that name what is allowed."""

    def __init__(self, document: Document) -> None:
        self._references = document.references
        self._schema = json_schema()

    def __call__(self, error: ErrorDetails) -> Problem:
        location = error["loc"]
        if location[-1] == "[key]":
            location = location[:-1]
        # A value is shown only where no secret is expected.
        shown = location[0] not in ("clusters", "spark") and location not in self._references
        return Problem(location, self._text(error, location, shown))

    def _text(self, error: ErrorDetails, location: Location, shown: bool) -> str:
        if error["type"] == "extra_forbidden":
            allowed = list(self._node(location[:-1])["properties"])
            near = get_close_matches(str(location[-1]), allowed, n=1)
            meant = f'; did you mean "{near[0]}"?' if near else ";"
            return f"unknown key{meant} allowed: {', '.join(allowed)}"
        if error["type"] == model.EXPLAINED and location not in self._references:
            return error["msg"]
        must = f"must be {self._allowed(location)}"
        if error["type"] == "missing":
            return f"required, but missing; {must}"
        value = error["input"]
        return f'{must}, not "{value:.60}"' if shown and isinstance(value, str) else must

    def _node(self, location: Location) -> dict[str, Any]:
        node = self._schema
        for key in location:
            node = node.get("properties", {}).get(key) or node.get("items") or node.get("additionalProperties") or {}
            if "$ref" in node:
                target = self._schema["$defs"][node["$ref"].rpartition("/")[2]]
                words = f"a mapping with the keys {', '.join(target['properties'])}"
                node = {**target, model.ALLOWED: node.get(model.ALLOWED, words)}
        return node

    def _allowed(self, location: Location) -> str:
        return str(self._node(location)[model.ALLOWED])


def _lines(path: Path, document: Document, found: list[Problem]) -> list[str]:
    placed = [(problem.line or document.line(problem.location), problem) for problem in found]
    placed.sort(key=lambda each: each[0] or 0)
    return [_line(path, line, problem) for line, problem in placed]


def _line(path: Path, line: int | None, problem: Problem) -> str:
    where = [f"{path}:{line}" if line else str(path), _key_path(problem.location), problem.text]
    return printable(" ".join(": ".join(filter(None, where)).split()))


def _key_path(location: Location) -> str:
    path = ""
    for key in location:
        if isinstance(key, int):
            path += f"[{key}]"
        else:
            # A key is cut at any other character: without the space after its colon it would hold the secret as well.
            name = re.match(r"[\w.-]*", key)
            path += ("." if path else "") + (key if name and name[0] == key else f"{name and name[0]}…")
    return path


def _settings(root: model.RootModel, spark_references: frozenset[str]) -> settings.Settings:
    clusters = {
        alias: settings.Cluster(alias, cluster.properties, cluster.consumer, cluster.producer)
        for alias, cluster in root.clusters.items()
    }
    return settings.Settings(
        flows=tuple(_flow(flow, clusters) for flow in root.flows),
        spark=settings.Spark(root.spark.master, root.spark.conf, spark_references),
        http=settings.Http(**root.http.model_dump()),
        metrics=settings.Metrics(**root.metrics.model_dump()),
        log=settings.Log(**root.log.model_dump()),
        drain_timeout=root.drain_timeout,
    )


def _flow(flow: model.FlowModel, clusters: Mapping[str, settings.Cluster]) -> settings.Flow:
    lists = {"include": tuple(flow.groups.include), "exclude": tuple(flow.groups.exclude)}
    groups = settings.Groups(**flow.groups.model_dump() | lists)
    values = flow.model_dump() | {
        "source": clusters[flow.source],
        "target": clusters[flow.target],
        "group": flow.position_group,
        "topics": tuple(flow.topics),
        "exclude": tuple(flow.exclude),
        "groups": groups,
        "heartbeats": settings.Heartbeats(**flow.heartbeats.model_dump()),
    }
    return settings.Flow(**values)
