"""The configurations of remote topics as plain data."""

from __future__ import annotations

from mirror.status.config_overview import CONFIG_OUTCOMES, configs_view
from mirror.topics.config_rounds import ConfigRound
from mirror.topics.config_rules import Change
from mirror.topics.config_sync import Outcome, TopicConfig


def config_round(*stand: tuple[str, Outcome]) -> ConfigRound:
    """A round that has found these topics in these outcomes."""
    change = (Change("retention.ms", "1", "2"),)
    topics = tuple(
        TopicConfig(
            name,
            f"primary.{name}",
            outcome,
            change if outcome in (Outcome.ALTERED, Outcome.DIFFERENT) else (),
            f"it is {outcome}" if outcome in (Outcome.DIFFERENT, Outcome.HIDDEN) else "",
        )
        for name, outcome in stand
    )
    altered = tuple(each for each in topics if each.outcome is Outcome.ALTERED)
    return ConfigRound(88.0, topics, altered, changes=7)


def test_outcomes_are_counted_and_what_is_not_in_step_is_listed() -> None:
    found = config_round(
        ("z", Outcome.DIFFERENT), ("a", Outcome.HIDDEN), ("b", Outcome.ALTERED), ("c", Outcome.IN_STEP)
    )
    view = configs_view(found)
    assert view.at == 88
    assert view.topics_by_outcome == dict.fromkeys(CONFIG_OUTCOMES, 1)
    assert [(each.topic, each.differences, each.reason) for each in view.topics] == [
        ("a", [], "it is hidden"),
        ("z", ["retention.ms=2 (was 1)"], "it is different"),
    ]
