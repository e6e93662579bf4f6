"""`mirror translate`: offsets that a cluster does not give, and groups that have none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from mirror import api
from mirror.cli import cli
from mirror.commands import translate as module
from mirror.config.load import load
from mirror.errors import ConfigError, MirrorError
from mirror.groups import selected
from mirror.groups.group_offsets import Committed, Found
from mirror.groups.translated import Translation
from mirror.model import Partition
from mirror.settings import Cluster

CONFIG = """
clusters: {primary: {bootstrap.servers: "p:1"}, backup: {bootstrap.servers: "b:1"}}
flows: [{source: primary, target: backup, topics: [orders]}]
"""
ORDERS = [Partition("orders", number) for number in range(3)]
REFUSED = "no offset of group billing: TOPIC_AUTHORIZATION_FAILED"


class Translator:
    """Everything is ten further on the target."""

    def __init__(self, _: object) -> None:
        pass

    def refresh(self, partitions: list[Partition]) -> None:
        """Nothing is read."""
        assert all(each.topic == "orders" for each in partitions)

    def remote(self, topic: str) -> str:
        return f"primary.{topic}"

    def to_downstream(self, partition: Partition, offset: int) -> Translation:
        return Translation(partition, self.remote(partition.topic), offset, offset + 10)

    def to_upstream(self, partition: Partition, offset: int) -> Translation:
        return Translation(partition, self.remote(partition.topic), offset, offset - 10)

    def close(self) -> None:
        """Nothing is open."""


class Admin:
    """A cluster with one topic."""

    def __init__(self, _: object) -> None:
        pass

    def partitions(self) -> dict[str, int]:
        return {"orders": 3, "other": 1}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "Translator", Translator)
    monkeypatch.setattr(module, "ClusterAdmin", Admin)
    path = tmp_path / "mirror.yaml"
    path.write_text(CONFIG)
    return path


def given(monkeypatch: pytest.MonkeyPatch, found: Mapping[int, int], refused: Mapping[int, str]) -> None:
    """What the cluster says of the group's offsets."""

    def offsets_of(cluster: Cluster, group: str, names: Mapping[Partition, tuple[str, int]]) -> Found:
        assert cluster.alias == "primary" and set(names) == set(ORDERS)
        offsets = {ORDERS[number]: Committed(offset, "") for number, offset in found.items()}
        return offsets, {ORDERS[number]: reason for number, reason in refused.items()}

    monkeypatch.setattr(module, "offsets_of", offsets_of)


def run(path: Path, *arguments: str) -> Any:
    return CliRunner().invoke(cli, ["translate", "-c", str(path), "--group", "billing", *arguments])


def test_a_refused_partition_is_a_row_with_the_reason(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, {0: 7, 2: 9}, {1: REFUSED})
    ended = run(path, "--json")
    assert ended.exit_code == 1
    rows = json.loads(ended.stdout)["offsets"]
    assert [(each["partition"], each["offset"], each["translated"]) for each in rows] == [
        (0, 7, 17),
        (1, None, None),
        (2, 9, 19),
    ]
    assert rows[1]["reason"] == REFUSED and rows[1]["remote"] == "primary.orders"
    ended = run(path)
    assert ended.exit_code == 1 and REFUSED in ended.stdout


def test_programs_get_it_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, {0: 7}, {1: REFUSED})
    (flow,) = load(path).flows
    asked = api.of_group(flow, "billing")
    assert (asked.offsets, asked.refused) == ({ORDERS[0]: 7}, {ORDERS[1]: REFUSED})
    assert [each.reason for each in api.translate(flow, asked)] == ["", REFUSED]


def test_offsets_that_are_all_translated_are_exit_0(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, {0: 7}, {})
    assert run(path).exit_code == 0


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_group_without_offsets_is_exit_1(path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    given(monkeypatch, {}, {})
    error = run(path, *more).exception
    assert isinstance(error, MirrorError) and error.exit_code == 1
    assert "group billing has no offsets of mirrored topics on primary: check its name" in str(error)
    assert "with --reverse it is looked for on backup" in str(error)


HELD = Partition("held", 0)
LONG = "x" * 245
SHARED = CONFIG.replace(
    "topics: [orders]", 'topics: ["o.*s", held, "x.*"], topic_settings: {held: {remote_topic: primary.orders}}'
)
WHY = "the topic is not mirrored: its remote topic would be primary.orders, which holds the copy of orders"
TOO_LONG = "the topic is not mirrored: the name of its remote topic would have more than"


@pytest.fixture
def shared(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One topic would have the remote topic of another one, and the name of a third one's would be too long."""
    path.write_text(SHARED)
    monkeypatch.setattr(Admin, "partitions", lambda _: {"orders": 1, "held": 1, "other": 1, LONG: 1})
    plan = SimpleNamespace(holders={"primary.orders": "orders"})
    monkeypatch.setattr(selected, "newest_plan", lambda _: (plan, None))
    return path


def asked(monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """Of which partitions the group's offsets are asked for. It has one in each."""
    partitions: list[Partition] = []

    def offsets_of(cluster: Cluster, group: str, names: Mapping[Partition, tuple[str, int]]) -> Found:
        partitions.extend(names)
        return dict.fromkeys(names, Committed(17, "")), {}

    monkeypatch.setattr(module, "offsets_of", offsets_of)
    return partitions


def test_of_a_group_a_topic_whose_remote_topic_cannot_have_its_name_is_a_row(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets of its other topics are translated all the same."""
    partitions = asked(monkeypatch)
    ended = run(shared, "--json")
    assert ended.exit_code == 1 and sorted(partitions) == [HELD, ORDERS[0], (LONG, 0)]
    held, orders, long = json.loads(ended.stdout)["offsets"]
    assert (orders["translated"], orders["reason"]) == (27, "")
    assert (held["offset"], held["translated"], held["remote"], held["reason"]) == (17, None, "", WHY)
    assert long["translated"] is None and long["reason"].startswith(TOO_LONG)
    assert WHY in run(shared).stdout


def test_on_the_target_its_name_is_the_other_topic_s(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = asked(monkeypatch)
    ended = run(shared, "--json", "--reverse")
    assert ended.exit_code == 0 and partitions == [ORDERS[0]]
    assert [each["translated"] for each in json.loads(ended.stdout)["offsets"]] == [7]


def test_an_offset_of_such_a_topic_is_bad_use(shared: Path) -> None:
    arguments = ["translate", "-c", str(shared), "--topic", "held", "--partition", "0", "--offset", "17"]
    error = CliRunner().invoke(cli, arguments).exception
    assert isinstance(error, ConfigError) and "does not mirror topic held: its remote topic would be" in str(error)
