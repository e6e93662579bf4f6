"""Properties of clients that mirror relies on."""

from __future__ import annotations

from pathlib import Path

import yaml

from mirror.config.load import load
from mirror.kafka import clients
from tests.harness.configuration import one_flow


def test_no_producer_makes_brokers_create_topics(tmp_path: Path) -> None:
    """A broker would create a deleted topic of mirror's own with its defaults, which do not compact it."""
    settings = one_flow("source:9092", "target:9092", ["t"], alias="primary")
    settings["clusters"]["backup"]["producer"] = {"allow.auto.create.topics": True}
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(settings))
    flow = load(file).flows[0]
    for properties in (clients.transactional_properties(flow, "id"), clients.idempotent_properties(flow)):
        assert properties["allow.auto.create.topics"] is False
    assert any("allow.auto.create.topics is ignored" in line for line in clients.overridden(flow))
