"""How the configurations of a flow's remote topics stand, as plain data, after the last round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mirror.topics.config_rounds import ConfigRound
from mirror.topics.config_sync import ConfigOutcome, TopicConfig

CONFIG_OUTCOMES = tuple(outcome.value for outcome in ConfigOutcome)
SHOWN = (ConfigOutcome.DIFFERENT, ConfigOutcome.HIDDEN)


@dataclass(frozen=True, slots=True)
class ConfigView:
    """A remote topic whose configuration is not in step."""

    topic: str
    remote: str
    differences: list[str]
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigsView:
    """All configurations of a flow."""

    at: float | None  # when the last round ended, in seconds since the Unix epoch; None: none has ended yet
    problem: str  # why the newest round has failed; "" if it has not
    topics_by_outcome: dict[str, int]
    topics: list[ConfigView]  # those that are not in step
    kept_by: str  # the flow that keeps the configurations in step in place of this one; "" if none does


def configs_view(found: ConfigRound) -> ConfigsView:
    """How the configurations stand after a round, or before the first one."""
    counts = Counter(each.outcome.value for each in found.topics)
    differing = sorted((each for each in found.topics if each.outcome in SHOWN), key=lambda each: each.topic)
    outcomes = {outcome: counts[outcome] for outcome in CONFIG_OUTCOMES}
    views = [_view(each) for each in differing]
    return ConfigsView(found.ended_at, found.problem, outcomes, views, found.kept_by)


def _view(each: TopicConfig) -> ConfigView:
    return ConfigView(each.topic, each.remote, [str(change) for change in each.changes], each.reason)
