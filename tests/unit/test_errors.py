"""Each error says whether what it stops goes on by itself or waits for a person."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from mirror import errors
from mirror.control.partition_state import TRANSITIONS, State
from mirror.errors import ClusterAway, ConfigError, Conflict, FlowError, MirrorError, OutcomeUnknown, PartitionError
from mirror.kafka.client_errors import is_away, is_lasting


def every(kind: type[MirrorError]) -> Iterator[type[MirrorError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from every(each)


TREE = [each for each in every(MirrorError) if each.__module__ == errors.__name__]
# What a reader expects to hear of whom an error stops.
EXPECT = r"retrying|blocked|ends?\b|nothing is started|stopped|goes on|let go|says|uses|tried again|starts another"


@pytest.mark.parametrize("kind", TREE)
def test_each_error_says_what_follows(kind: type[MirrorError]) -> None:
    assert kind.__doc__ and re.search(EXPECT, kind.__doc__), kind
    line = re.search(rf"^[│ ├└─]*{kind.__name__}(.*)$", errors.__doc__ or "", re.MULTILINE)
    assert line, "it is missing in the tree"
    if kind.blocked and kind is not errors.RecordsRefused:
        assert "blocked" in line[1] and "blocked" in kind.__doc__


def test_which_errors_wait_for_a_person() -> None:
    assert {kind.__name__ for kind in TREE if kind.blocked} == {
        "RecordsRefused",
        "PoisonRecord",
        "SourceDataLost",
        "DecisionNeeded",
        "Conflict",
        "ForeignPlan",
        "TransformUnusable",
    }


def test_one_error_may_say_otherwise_than_its_class() -> None:
    assert not PartitionError("x").blocked and PartitionError("x", True).blocked
    assert OutcomeUnknown("x", blocked=True).blocked and not OutcomeUnknown("x", away=True).blocked
    assert FlowError("x", blocked=True).blocked and not FlowError("x").blocked
    assert Conflict("x", gave_way=False).blocked
    assert not ClusterAway("backup", "x").blocked and not ConfigError(["x"]).blocked


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_a_missing_permission_lasts(code: int) -> None:
    assert is_lasting(KafkaError(code)) and not is_away(KafkaError(code))


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TIMED_OUT])
def test_a_cluster_that_is_away_does_not_wait_for_a_person(code: int) -> None:
    assert not is_lasting(KafkaError(code))


def test_an_error_leads_from_every_state_that_copies_to_both() -> None:
    stopped = {state for state in State if state.stopped_by_error}
    assert stopped == {State.RETRYING, State.BLOCKED}
    for state in (State.STARTING, State.RUNNING, *stopped):
        assert stopped - {state} <= TRANSITIONS[state]
    for state in stopped:
        assert State.RUNNING in TRANSITIONS[state]
