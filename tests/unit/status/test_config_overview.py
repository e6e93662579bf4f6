"""The configurations of remote topics as plain data."""

from __future__ import annotations

from mirror.status.config_overview import CONFIG_OUTCOMES, configs_view
from mirror.topics.config_rounds import ConfigRound
from mirror.topics.config_rules import Change
from mirror.topics.config_sync import ConfigOutcome, TopicConfig


def config_round(*stand: tuple[str, ConfigOutcome]) -> ConfigRound:
    """A round that has found these topics in these outcomes."""
    change = (Change("retention.ms", "1", "2"),)
    topics = tuple(
        TopicConfig(
            name,
            f"primary.{name}",
            outcome,
            change if outcome in (ConfigOutcome.ALTERED, ConfigOutcome.DIFFERENT) else (),
            f"it is {outcome}" if outcome in (ConfigOutcome.DIFFERENT, ConfigOutcome.HIDDEN) else "",
        )
        for name, outcome in stand
    )
    altered = tuple(each for each in topics if each.outcome is ConfigOutcome.ALTERED)
    return ConfigRound(88.0, topics, altered, changes=7)


def test_outcomes_are_counted_and_what_is_not_in_step_is_listed() -> None:
    found = config_round(
        ("z", ConfigOutcome.DIFFERENT),
        ("a", ConfigOutcome.HIDDEN),
        ("b", ConfigOutcome.ALTERED),
        ("c", ConfigOutcome.IN_STEP),
    )
    view = configs_view(found)
    assert view.at == 88
    assert view.topics_by_outcome == dict.fromkeys(CONFIG_OUTCOMES, 1)
    assert [(each.topic, each.differences, each.reason) for each in view.topics] == [
        ("a", [], "it is hidden"),
        ("z", ["retention.ms=2 (was 1)"], "it is different"),
    ]
