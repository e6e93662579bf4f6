"""Loads the configuration files: returns frozen settings, or raises every problem with file, line and key."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mirror import service_settings, settings
from mirror.config import expected, explain, flow_model, model
from mirror.config import files as config_files
from mirror.config.conflicts import flow_problems
from mirror.config.files import DEFAULTS, Files, Placed
from mirror.config.hiding import without_references
from mirror.config.librdkafka import client_problems, servers
from mirror.config.located_yaml import Location, Problem
from mirror.config.suspicions import suspicions
from mirror.config.value_types import ALLOWED
from mirror.errors import ConfigError, FlowError
from mirror.spark import fixed, security
from mirror.spark.submission import is_submitted

_Model = TypeVar("_Model", bound=BaseModel)

_SPARK_MASTER: Location = ("spark", "master")
_SPARK_CONF: Location = ("spark", "conf")
HTTP_USERNAME: Location = ("http", "username")
HTTP_PASSWORD: Location = ("http", "password")
_FOLLOWED = ("sasl.", "ssl.", "https.")  # what the properties that are read again begin with
WARNINGS_MAX = 100  # of one configuration; nobody reads more


def load(paths: Path | Sequence[Path], environ: Mapping[str, str] = os.environ) -> service_settings.Settings:
    """Load the settings from one YAML file or several, and check them without touching the network.

    Later files win. Raises ConfigError with all problems, file by file in the order of their lines. No text of a
    problem holds a value that came from a `${...}`, or one whose key looks like a secret's.
    """
    files, root = checked(paths, environ)
    return settings_of(root, spark_references(files), secret_files(files), warnings_of(root, files))


def checked(paths: Path | Sequence[Path], environ: Mapping[str, str]) -> tuple[Files, model.RootModel]:
    """The merged files, and what they say. Raises ConfigError as `load` does."""
    files = config_files.read([paths] if isinstance(paths, Path) else paths, environ)
    try:
        found, root = _check(files, environ)
    except FlowError as error:  # a replication policy of the user's own does not answer
        raise ConfigError([str(error)]) from None
    if root is None or found:
        order = {document.path: number for number, document in enumerate(files.documents)}
        found.sort(key=lambda each: (order[each.place.path], each.place.line or 0))
        raise ConfigError([explain.line(each) for each in found])
    return files, root


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors."""
    return model.RootModel.model_json_schema()


def _check(files: Files, environ: Mapping[str, str]) -> tuple[list[Placed], model.RootModel | None]:
    found = list(files.problems)
    if not isinstance(files.tree, dict):
        return found, None
    clusters = _mapping(files.tree.get("clusters"))
    context = {"aliases": list(clusters)}
    root, errors = _validated(model.RootModel, files.tree, context)
    found += _explained(errors, files, {_spot(each) for each in found})
    broken = {each.location for each in found if each.location is not None}
    for alias, cluster in clusters.items():
        at = ("clusters", alias)
        wrong = client_problems(at, _mapping(cluster), _references(at, cluster, files), broken)
        found += (_placed(problem, files) for problem in wrong)
    found += _across(files, context)
    if root is not None:
        found += (_placed(problem, files) for problem in _spark_problems(root.spark, files, environ))
    return found, root


def _spark_problems(spark: model.SparkModel, files: Files, environ: Mapping[str, str]) -> Iterator[Problem]:
    # The master of a spark-submit counts then. Spark itself does not start if it needs a secret and has none.
    master = "local" if is_submitted(environ) else spark.master
    if not security.is_master(master):
        yield Problem(_SPARK_MASTER, f"must be {expected.node(_SPARK_MASTER)[ALLOWED]}")
        master = "local"  # a secret that only this master would need is no second problem
    wrong = (*fixed.problems(spark.conf), *security.problems(master, spark.conf, spark_references(files)))
    for key, text in wrong:
        yield Problem((*_SPARK_CONF, key), text)


def _explained(errors: Sequence[ErrorDetails], files: Files, broken: Set[object]) -> Iterator[Placed]:
    """The model's problems, but none where the file has a `broken` value already.

    What is wrong in flow_defaults is wrong in each flow that takes it, and is reported once.
    """
    reported = set(broken)
    for problem in map(explain.Explainer(files.is_reference), errors):
        found = _placed(problem, files)
        if _spot(found) not in (reported if found.place.key[:1] == (DEFAULTS,) else broken):
            reported.add(_spot(found))
            yield found


def _placed(problem: Problem, files: Files) -> Placed:
    return Placed(files.place(problem.location), problem.text, problem.location)


def _spot(found: Placed) -> tuple[Path, Location]:
    return found.place.path, found.place.key


def _references(at: Location, value: Any, files: Files) -> frozenset[Location]:
    """The locations below `at` whose values were made from `${...}`."""
    if isinstance(value, dict):
        return frozenset().union(*(_references((*at, key), each, files) for key, each in value.items()))
    return frozenset({at} if files.is_reference(at) else ())


def spark_references(files: Files) -> frozenset[str]:
    """The keys of Spark properties whose values were made from `${...}`."""
    conf = _mapping(_mapping(files.tree.get("spark")).get("conf"))
    return frozenset(key for key in conf if files.is_reference((*_SPARK_CONF, key)))


def secret_files(files: Files) -> dict[Location, str]:
    """The files that clients and the HTTP server read again when they have changed, by the key whose value they are.

    They hold what a client needs to log in. An address is no such thing: clients would be on two clusters for a while.
    """
    clusters = _mapping(files.tree.get("clusters"))
    keys: list[Location] = [
        ("clusters", alias, key)
        for alias, each in clusters.items()
        for key in _mapping(each)
        if key.startswith(_FOLLOWED)
    ]
    followed = (*keys, HTTP_USERNAME, HTTP_PASSWORD)
    return {key: str(file.absolute()) for key in followed if (file := files.file(key)) is not None}


def _validated(kind: type[_Model], value: Any, context: dict[str, Any]) -> tuple[_Model | None, list[ErrorDetails]]:
    try:
        return kind.model_validate(value, context=context), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _across(files: Files, context: dict[str, Any]) -> Iterator[Placed]:
    """Problems between flows, from all parts of the files that are valid; at most one for each place.

    Flows that are too many are not compared: that there are too many is reported already.
    """
    flows = files.tree.get("flows")
    listed = list(enumerate(flows if isinstance(flows, list) and len(flows) <= model.FLOWS_MAX else []))
    known = {
        alias: servers(str(_mapping(cluster).get("bootstrap.servers") or ""))
        for alias, cluster in _mapping(files.tree.get("clusters")).items()
    }
    ends = {index: good for index, flow in listed if (good := _validated(flow_model.EndsModel, flow, context)[0])}
    whole = {index: good for index, flow in listed if (good := _validated(flow_model.FlowModel, flow, context)[0])}
    reported: set[object] = set()
    problems: dict[Location, Problem] = {}  # the first of each location: a thousand equal flows have half a million
    for problem in flow_problems(ends, whole, known, files.flow):
        problems.setdefault(problem.location, problem)
    for problem in problems.values():
        found = _placed(problem._replace(text=without_references(problem.text, files)), files)
        if _spot(found) not in reported:
            reported.add(_spot(found))
            shared = files.is_default(problem.location)
            yield found._replace(text=f"{found.text} (for {files.flow(int(problem.location[1]))})") if shared else found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def warnings_of(root: model.RootModel, files: Files) -> tuple[service_settings.Suspicion, ...]:
    """What is allowed in the files but looks like a mistake."""
    return tuple(islice(suspicions(root, files), WARNINGS_MAX))


def settings_of(
    root: model.RootModel,
    references: frozenset[str],
    secrets: Mapping[Location, str],
    warnings: tuple[service_settings.Suspicion, ...],
) -> service_settings.Settings:
    """A valid configuration as a run takes it. `references` are the Spark properties that were made from `${...}`.

    `secrets` are the files of `secret_files`.
    """
    clusters = {
        alias: settings.Cluster(
            alias,
            cluster.properties,
            cluster.consumer,
            cluster.producer,
            {str(key[2]): file for key, file in secrets.items() if key[:2] == ("clusters", alias)},
        )
        for alias, cluster in root.clusters.items()
    }
    return service_settings.Settings(
        flows=tuple(_flow(flow, clusters) for flow in root.flows),
        spark=service_settings.Spark(root.spark.master, root.spark.conf, references),
        http=service_settings.Http(
            **root.http.model_dump(),
            username_file=secrets.get(HTTP_USERNAME),
            password_file=secrets.get(HTTP_PASSWORD),
        ),
        metrics=service_settings.Metrics(root.metrics.labels, service_settings.Otlp(**root.metrics.otlp.model_dump())),
        log=service_settings.Log(**root.log.model_dump()),
        drain_timeout=root.drain_timeout,
        warnings=warnings,
    )


def _flow(flow: flow_model.FlowModel, clusters: Mapping[str, settings.Cluster]) -> settings.Flow:
    lists = {"include": tuple(flow.groups.include), "exclude": tuple(flow.groups.exclude)}
    groups = settings.Groups(**flow.groups.model_dump() | lists)
    values = flow.model_dump() | {
        "source": clusters[flow.source],
        "target": clusters[flow.target],
        "group": flow.position_group,
        "topics": tuple(flow.topics),
        "exclude": tuple(flow.exclude),
        "exclude_configs": tuple(flow.exclude_configs),
        "topic_settings": {
            topic: settings.TopicSettings(**own.model_dump()) for topic, own in flow.topic_settings.items()
        },
        "groups": groups,
        "heartbeats": settings.Heartbeats(**flow.heartbeats.model_dump()),
        "canary": settings.Canary(**flow.canary.model_dump()),
        "mirrormaker_offsets": settings.MirrorMakerOffsets(**flow.mirrormaker_offsets.model_dump()),
    }
    return settings.Flow(**values)
