"""Topics whose configuration may be kept in step: not those whose remote topic may hold another topic's records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.control.decisions import Incident
from mirror.control.reports import Report
from mirror.model import Topic
from mirror.topics.trusted import Trusted, trusted_topics
from tests.unit.control.test_reports import report

TOPIC = Topic("primary.topic", "new", 2, 2, "remote")


def of(partition: int, **values: Any) -> Report:
    return replace(report(1, partition), **{"topic_id": "new", "remote_id": "remote", **values})


@pytest.mark.parametrize(
    ("reports", "trusted"),
    [
        ([], False),  # no task has said anything yet
        ([of(0)], True),
        ([of(0), of(1, topic_id="", remote_id="")], True),  # nothing was copied of the second partition
        ([of(0), of(1, topic_id="old")], False),  # the source topic was made again, and copying has not gone on
        ([of(0), of(1, remote_id="old")], False),
        ([of(0, state="blocked", incident=Incident("recreated", "new"))], False),
        ([of(0, topic_id="", state="blocked", incident=Incident("unknown_records", "new"))], False),
        ([of(0, state="blocked", incident=Incident("deleted", "new"))], True),  # it is the same topic
        ([of(0, state="paused")], True),
    ],
)
def test_which_topics_are_settled(reports: list[Report], trusted: bool) -> None:
    assert trusted_topics({"topic": TOPIC}, reports).topics == ({"topic": TOPIC} if trusted else {})


def test_topics_that_left_the_plan_or_whose_remote_topic_is_gone_are_not() -> None:
    nothing = Trusted({}, frozenset())
    assert trusted_topics({}, [of(0)]) == nothing
    assert trusted_topics({"topic": replace(TOPIC, remote_lost=True)}, [of(0)]) == nothing


def test_where_nothing_was_copied_somebody_elses_records_may_be() -> None:
    nothing, something = of(0, topic_id="", remote_id=""), of(1)
    assert trusted_topics({"topic": TOPIC}, [nothing]).unproven == {"topic"}
    assert trusted_topics({"topic": TOPIC}, [nothing, something]).unproven == set()
