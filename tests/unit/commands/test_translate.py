"""`mirror translate`: offsets that a cluster does not give, and groups that have none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirror import api
from mirror.cli import cli
from mirror.commands import translate as module
from mirror.config.load import load
from mirror.errors import MirrorError
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

    def remote(self, topic: str) -> str:
        return f"primary.{topic}"

    def to_downstream(self, partition: Partition, offset: int) -> Translation:
        return Translation(partition, self.remote(partition.topic), offset, offset + 10)

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
