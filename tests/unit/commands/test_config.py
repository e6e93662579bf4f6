"""`mirror config`, and what `validate` and the others say of several files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner, Result

from mirror import own_policy
from mirror.cli import cli
from mirror.config.load import load
from mirror.errors import ConfigError
from mirror.own_policy import OwnPolicy, Questions
from mirror.service.front import log_warnings

BASE = """\
clusters:
  primary:
    bootstrap.servers: localhost:9092
    sasl.password: hunter2
    client.id: "a-${env:REF}"
  backup: {bootstrap.servers: "localhost:9093", producer: {linger.ms: 5}}
flow_defaults:
  compression: zstd
  groups: {sync: true}
flows:
  - source: primary
    target: backup
    topics: [orders, "${env:REF}"]
"""
OVER = """\
flows:
  - {source: primary, target: backup, transaction_timeout: 90s, groups: {interval: 1.5}}
spark:
  conf:
    spark.a: x
    spark.ssl.keyPassword: hunter2
    spark.driver.extraJavaOptions: -Dx.keyStorePassword=hunter2 -Dy=1
    spark.url: https://user:hunter2@host/
http: {port: "${env:PORT}"}
metrics: {otlp: {headers: {authorization: Basic hunter2}}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REF", "hunter2")
    monkeypatch.setenv("PORT", "4242")
    Path("base.yaml").write_text(BASE)
    Path("over.yaml").write_text(OVER)
    return ["-c", "base.yaml", "-c", "over.yaml"]


def mirror(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def leaves(tree: Any, at: str = "") -> dict[str, tuple[Any, str]]:
    """Value and origin by key."""
    if isinstance(tree, dict) and tree.keys() == {"value", "origin"}:
        return {at: (tree["value"], tree["origin"])}
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {path: leaf for key, value in pairs for path, leaf in leaves(value, f"{at}/{key}").items()}


def test_each_setting_has_its_origin(files: list[str]) -> None:
    found = leaves(json.loads(mirror("config", *files, "--json").stdout))
    expected = {
        "/clusters/primary/bootstrap.servers": ("localhost:9092", "base.yaml:3"),
        "/clusters/primary/consumer": ({}, "default"),
        "/clusters/backup/producer/linger.ms": ("5", "base.yaml:6"),
        "/flows/0/source": ("primary", "over.yaml:2"),
        "/flows/0/group": ("mirror-primary-backup", "default"),
        "/flows/0/topics": (["orders", "(hidden)"], "base.yaml:13"),
        "/flows/0/compression": ("zstd", "flow_defaults base.yaml:8"),
        "/flows/0/groups/sync": (True, "flow_defaults base.yaml:9"),
        "/flows/0/groups/interval": (1.5, "over.yaml:2"),
        "/flows/0/groups/checkpoints": (True, "default"),
        "/flows/0/heartbeats/enabled": (False, "default"),
        "/flows/0/transaction_timeout": (90.0, "over.yaml:2"),
        "/flows/0/tasks_max": (None, "default"),
        "/spark/master": ("local[*]", "default"),
        "/spark/conf/spark.a": ("x", "over.yaml:5"),
        "/log/level": ("info", "default"),
        "/drain_timeout": (10.0, "default"),
    }
    assert {key: found.get(key) for key in expected} == expected
    assert not any(key.startswith("/flow_defaults") for key in found)


def test_what_a_null_takes_away_comes_from_no_file(files: list[str]) -> None:
    over = "{source: primary, target: backup, compression: null, tasks_max: null, groups: {sync: null, interval: 5}}"
    Path("over.yaml").write_text(f"flows: [{over}]\nclusters: {{primary: {{sasl.password: null}}}}\nhttp:\n")
    found = leaves(json.loads(mirror("config", *files, "--json").stdout))
    expected = {
        "/flows/0/compression": ("none", "default"),
        "/flows/0/groups/sync": (False, "default"),
        "/flows/0/groups/interval": (5.0, "over.yaml:1"),
        "/flows/0/tasks_max": (None, "over.yaml:1"),
        "/flows/0/topics": (["orders", "(hidden)"], "base.yaml:13"),
        "/http/port": (9464, "default"),
        "/clusters/primary/client.id": ("(hidden)", "base.yaml:5"),
    }
    assert {key: found.get(key) for key in expected} == expected
    assert "/clusters/primary/sasl.password" not in found


def test_secrets_are_hidden(files: list[str]) -> None:
    hidden = {
        "/clusters/primary/sasl.password": "base.yaml:4",
        "/clusters/primary/client.id": "base.yaml:5",
        "/spark/conf/spark.ssl.keyPassword": "over.yaml:6",
        "/spark/conf/spark.driver.extraJavaOptions": "over.yaml:7",
        "/spark/conf/spark.url": "over.yaml:8",
        "/http/port": "over.yaml:9",
        "/metrics/otlp/headers/authorization": "over.yaml:10",
    }
    for more in ([], ["--json"]):
        ended = mirror("config", *files, *more)
        assert ended.exit_code == 0 and "hunter2" not in ended.output and "4242" not in ended.output
    found = leaves(json.loads(ended.stdout))
    assert {key: leaf for key, leaf in found.items() if leaf[0] == "(hidden)"} == {
        key: ("(hidden)", origin) for key, origin in hidden.items()
    }


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("https://in.example:4318/v1/metrics/hunter2", "https://in.example:4318/(hidden)"),
        ("https://in.example/hunter2/v1/metrics", "https://in.example/(hidden)"),
        ("https://in.example/v1/metrics", "https://in.example/v1/metrics"),
        ("http://[::1]:4318", "http://[::1]:4318"),
        ("http://h/", "http://h/"),
    ],
)
def test_the_path_of_the_collectors_endpoint_may_be_a_token(files: list[str], endpoint: str, shown: str) -> None:
    Path("over.yaml").write_text(f"metrics: {{otlp: {{endpoint: '{endpoint}'}}}}\n")
    for more in ([], ["--json"]):
        ended = mirror("config", *files, *more)
        assert ended.exit_code == 0 and "hunter2" not in ended.output
    assert leaves(json.loads(ended.stdout))["/metrics/otlp/endpoint"] == (shown, "over.yaml:1")


def test_every_key_is_printed(files: list[str]) -> None:
    """The example has every key, and what is printed for it says the same as the example."""
    example = Path(__file__).parents[3] / "config.example.yaml"
    shown = mirror("config", "-c", str(example)).stdout
    Path("again.yaml").write_text(shown)
    assert load(Path("again.yaml"), {}) == load(example, {})
    tree, ours = yaml.safe_load(example.read_text()), yaml.safe_load(shown)
    assert tree.keys() - {"flow_defaults"} == ours.keys()
    assert tree["flows"][0].keys() == ours["flows"][0].keys()


def test_what_is_printed_is_read_as_the_same_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = r"""
clusters:
  a.b: {bootstrap.servers: "localhost:1", client.id: "no # 1: {x}", client.rack: "é\e", consumer: {client.id: "0123"}}
  null-1: {bootstrap.servers: "localhost:2"}
flows:
  - {source: a.b, target: null-1, topics: ["a, b|c", "[*]a{1,2}"], start: 5, batch_max_bytes: 1025, tasks_max: 7}
  - {source: null-1, target: a.b, topics: [".*'\"x"], start: 2025-01-31T12:00:00Z, transaction_linger_max: 1.5ms}
spark: {conf: {"odd name: #": "yes", "b": "true", "c": "~"}}
"""
    Path("odd.yaml").write_text(odd)
    Path("again.yaml").write_text(mirror("config", "-c", "odd.yaml").stdout)
    first, again = load(Path("odd.yaml"), {}), load(Path("again.yaml"), {})
    assert (again.flows, again.spark.conf) == (first.flows, first.spark.conf)


def test_each_line_with_a_value_ends_with_its_origin(files: list[str]) -> None:
    lines = mirror("config", *files).stdout.splitlines()
    assert "    transaction_timeout: 90s # over.yaml:2" in lines
    assert "    batch_max_bytes: 16MiB # default" in lines
    assert "    compression: zstd # flow_defaults base.yaml:8" in lines
    assert all(" # " in line for line in lines if not line.endswith(":"))


def test_what_is_not_valid_is_told_as_validate_tells_it(files: list[str]) -> None:
    Path("over.yaml").write_text("log: {level: loud}")
    said = []
    for verb in ("validate", "config", "status", "pause"):
        ended = CliRunner().invoke(cli, [verb, *files])
        assert isinstance(ended.exception, ConfigError) and ended.exception.exit_code == 2
        said.append(str(ended.exception))
    assert set(said) == {'over.yaml:1: log.level: must be debug, info, warning or error, not "loud"'}


class Hanging:
    """A replication policy that never answers."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def is_internal_topic(self, topic: str) -> bool:
        self.goes_on.wait()
        return False

    topic_source = upstream_topic = format_remote_topic = is_internal_topic


def test_a_policy_of_the_users_own_that_can_not_be_used_ends_each_command(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("over.yaml").write_text("flow_defaults: {replication_policy: no_such_module.Policy}")
    hanging = Hanging()
    try:
        for verb in ("validate", "plan", "check"):
            ended = CliRunner().invoke(cli, [verb, *files])
            assert isinstance(ended.exception, ConfigError) and ended.exception.exit_code == 2
            assert ended.exception.problems == [
                "over.yaml:1: flow_defaults.replication_policy: no_such_module.Policy can't be used: "
                "there is no module no_such_module; it must be on PYTHONPATH"
            ]
        monkeypatch.setattr(own_policy, "load", lambda path: OwnPolicy(path, cast(Questions, hanging), timeout=0.05))
        for verb in ("validate", "plan", "check"):
            ended = CliRunner().invoke(cli, [verb, *files])
            assert isinstance(ended.exception, ConfigError) and ended.exception.exit_code == 2
            assert "no_such_module.Policy has not answered about orders within 0.05 s" in ended.exception.problems[0]
    finally:
        hanging.goes_on.set()


def test_validate_names_all_files_and_warns(files: list[str]) -> None:
    assert mirror("validate", *files).stdout == "base.yaml, over.yaml: ok (1 flow: primary->backup)\n"
    Path("over.yaml").write_text("flow_defaults: {exclude: ['tmp*']}\nflows: [{source: backup, target: primary}]\n")
    ended = mirror("validate", *files)
    assert ended.exit_code == 0 and ended.stdout.endswith("ok (2 flows: primary->backup, backup->primary)\n")
    assert ended.stderr.count("WARNING") == 1  # though two flows have it
    assert ended.stderr.startswith('WARNING over.yaml:1: flow_defaults.exclude[0]: "tmp*" is a regular expression')


def test_the_log_warns_at_the_start(files: list[str], caplog: pytest.LogCaptureFixture) -> None:
    Path("over.yaml").write_text("flows: [{source: primary, target: backup, topics: ['tmp*']}]\n")
    log_warnings(load([Path("base.yaml"), Path("over.yaml")]))
    (record,) = caplog.records
    assert record.levelname == "WARNING" and vars(record)["flow"] == "primary->backup"
    assert record.getMessage().startswith('over.yaml:1: flows[0].topics[0]: "tmp*" is')
