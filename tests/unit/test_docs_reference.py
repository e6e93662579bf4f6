"""The tables of the reference pages say what the code does, and their links hold in the repository as well."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import reference

from mirror.config import flow_model, model
from mirror.config.load import settings_of
from mirror.kafka import clients
from mirror.kafka.producers import idempotent_properties, transactional_properties
from mirror.kafka.throttling import Throttle
from mirror.settings import Flow

ROOT = Path(__file__).parents[2]
PAPERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
OURS = "7777777"  # what a user sets each property to; a number, because some are compared with numbers


def flow_with(properties: dict[str, str]) -> Flow:
    clusters = {alias: {"bootstrap.servers": "localhost:1", **properties} for alias in ("primary", "backup")}
    flows = [{"source": "primary", "target": "backup"}]
    root = model.RootModel.model_validate({"clusters": clusters, "flows": flows})
    (flow,) = settings_of(root, frozenset(), {}, ()).flows
    return flow


def made(properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """The properties of the clients that copy records, for a user who sets these."""
    consumers: list[dict[str, Any]] = []
    monkeypatch.setattr(clients, "Consumer", lambda config, logger: consumers.append(config))
    flow = flow_with(properties)
    clients.source_consumer(flow, logging.getLogger("tests"), Throttle())
    return {
        "source consumer": consumers,
        "target producer": [transactional_properties(flow, "an id"), idempotent_properties(flow)],
    }


def test_the_fixed_properties_are_those_that_the_clients_override(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = re.findall(r"^\| `([a-z._]+)` \| (.+) \| (.+) \|$", reference.fixed_properties(), re.MULTILINE)
    plain = made({}, monkeypatch)
    known = {name for configs in plain.values() for config in configs for name in config}
    known |= {name for name, _, _ in rows} | {"socket.timeout.ms", "request.timeout.ms", "client.rack"}
    known -= {"bootstrap.servers", "throttle_cb"}
    for client, configs in made(dict.fromkeys(known, OURS), monkeypatch).items():
        fixed = {name for config in configs for name in known & config.keys() if config[name] != OURS}
        assert fixed == {name for name, _, of in rows if of == client}, client
        for name, shown, of in rows:
            if of == client and re.fullmatch(r"`[^`]+`", shown) and name not in reference.DEPENDING:
                assert {f"`{str(config[name]).lower()}`" for config in configs if name in config} == {shown}, name


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        (flow_model.TopicSettingsModel, "throttle", "size or null"),
        (flow_model.TopicSettingsModel, "start", "time or null"),
        (flow_model.FlowModel, "throttle", "size or null"),
        (flow_model.FlowModel, "start", "time"),
        (flow_model.FlowModel, "batch_max_bytes", "size"),
        (flow_model.FlowModel, "transaction_timeout", "duration"),
        (flow_model.FlowModel, "tasks_max", "whole number or null"),
    ],
)
def test_types_are_named_as_people_write_them(kind: type[Any], key: str, said: str) -> None:
    assert reference.type_of(kind, key, kind.model_fields[key]) == said


def test_a_word_that_two_metrics_use_is_explained_for_each() -> None:
    lost, path = (reference.MEANINGS[f"mirror_{name}"] for name in ("lost_offsets", "record_path_partitions"))
    same = lost.keys() & path.keys()
    assert same == {"recreated", "refused", "remote_topic"}
    assert [value for value in same if lost[value] == path[value]] == []
    shown = " ".join((ROOT / "docs" / "metrics.md").read_text().split())
    for value, meaning in path.items():
        assert f"`{value}`: {meaning}" in shown, value


@cache
def headings(page: Path) -> set[str]:
    """The names that code hosts give to headings."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {f"{name}-{number}" if number else name for name, most in found.items() for number in range(most + 1)}


def test_links_to_headings_hold_in_the_repository() -> None:
    """The build of the site looks at the site's names of headings, and these are others."""
    dead, seen = [], 0
    for page in (*map(ROOT.joinpath, PAPERS), *(ROOT / "docs").rglob("*.md")):
        for target, name in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", FENCE.sub("", page.read_text())):
            linked = page.parent / target if target else page
            linked = linked / "README.md" if linked.is_dir() else linked
            seen += 1
            if not linked.is_file() or name not in headings(linked.resolve()):
                dead.append(f"{page.relative_to(ROOT)}: {target}#{name}")
    assert seen > 100
    assert dead == []
