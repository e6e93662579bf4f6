"""`mirror check` says what it has found, also where a cluster falls silent meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException

from mirror.cli import cli
from mirror.commands.check import command
from mirror.commands.check.findings import Check
from mirror.commands.check.inspection import Inspector
from mirror.errors import ClusterAway, FlowError, ForeignPlan
from mirror.kafka import clients, cluster
from mirror.settings import Cluster, Flow
from tests.unit.test_naming import flow


class Forgotten(Future[Any]):
    """The answer to a request that librdkafka has forgotten."""

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "this waits for ever"
        return super().result(timeout)


def forgotten(*_: object, **__: object) -> Forgotten:
    return Forgotten()


def one_forgotten(asked: dict[Any, Any], **_: object) -> dict[Any, Forgotten]:
    return {each: Forgotten() for each in asked}


@pytest.mark.parametrize(
    "ask", [Inspector.describe, lambda inspector: list(inspector.newest_timestamps([("orders", 2)]))]
)
def test_no_answer_is_awaited_for_ever(ask: Callable[[Inspector], object], monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(describe_cluster=forgotten, list_offsets=one_forgotten)
    monkeypatch.setattr(clients, "admin", lambda *_: client)
    monkeypatch.setattr(cluster, "TIMEOUT", 0.01)
    with pytest.raises(ClusterAway, match="primary does not answer: no answer in time"):
        ask(Inspector(Cluster("primary", {}, {}, {})))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClusterAway("backup", "no answer in time"), "cluster backup does not answer: no answer in time"),
        (ForeignPlan("flow primary->backup: another version"), "flow primary->backup: another version"),
        (FlowError("its own policy does not answer"), "its own policy does not answer"),
        (KafkaException(KafkaError(KafkaError._AUTHENTICATION, "wrong password")), "wrong password"),
    ],
)
def test_a_flow_that_cant_be_checked_keeps_the_findings_of_the_others(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Checks:
        def __init__(self, flow: Flow, _: object) -> None:
            if flow.name == "primary->backup":
                raise error
            self.name = flow.name

        def all(self) -> Iterator[Check]:
            yield Check(self.name, "clusters", "OK", "two")

    def reach(_: Cluster) -> Generator[Check, None, Any]:
        yield from ()
        return SimpleNamespace(), SimpleNamespace()

    monkeypatch.setattr(command, "FlowChecks", Checks)
    monkeypatch.setattr(command, "_reach", reach)
    monkeypatch.setattr(command, "_versions", lambda *_: ())
    monkeypatch.setattr(command, "_java", lambda: Check("this machine", "Java", "OK", "17"))
    monkeypatch.setattr(command, "_spark", lambda _: ())
    flows = [flow(), flow(target=Cluster("third", {}, {}, {}))]
    settings: Any = SimpleNamespace(spark=None, warned=lambda _: ())
    found = [each for each in command.check(settings, flows) if each.scope != "this machine"]
    assert found == [
        Check("primary->backup", "flow", "FAILED", f"not checked: {said}"),
        Check("primary->third", "clusters", "OK", "two"),
    ]


def test_each_finding_is_shown_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes later may take minutes, and may fail."""

    def found(*_: object) -> Iterator[Check]:
        yield Check("primary", "connection", "OK", "3 brokers, one is called \x1b[2J")
        raise FlowError("and no more")

    monkeypatch.setattr(command, "check", found)
    file = tmp_path / "mirror.yaml"
    file.write_text("clusters: {primary: {bootstrap.servers: 'p:1'}, backup: {bootstrap.servers: 'b:1'}}\n")
    with file.open("a") as text:
        text.write("flows: [{source: primary, target: backup}]\n")
    done = CliRunner().invoke(cli, ["check", "-c", str(file)])
    assert done.output == "OK       primary: connection: 3 brokers, one is called ?[2J\n"
    assert isinstance(done.exception, FlowError)
