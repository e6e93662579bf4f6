"""What follows each error of the tree in errors.py: a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from mirror import errors
from mirror.control.partition_state import State
from mirror.errors import (
    ClusterAway,
    DecisionNeeded,
    Interleaved,
    MirrorError,
    OutcomeUnknown,
    PartitionError,
    PoisonRecord,
    PositionUnstable,
    ProducerFenced,
    RecordsRefused,
    SourceDataLost,
    TransactionAborted,
    TransformFailed,
    TransformUnusable,
)
from mirror.task.error_recovery import DECISION_RETRY, Recovery, recovery

RETRYING, BLOCKED, PAUSED = State.RETRYING, State.BLOCKED, State.PAUSED


def follows(
    becomes: State,
    outcome: str = "",
    fenced: bool = False,
    discards: bool = True,
    drops_buffer: bool = False,
    keeps_incident: bool = False,
    after: float | None = None,
) -> Recovery:
    return Recovery(outcome, fenced, discards, becomes, drops_buffer, keeps_incident, after)  # type: ignore[arg-type]


DECIDE = follows(BLOCKED, drops_buffer=True, keeps_incident=True, after=DECISION_RETRY)
TABLE: list[tuple[MirrorError, Recovery]] = [
    (PartitionError("x"), follows(RETRYING)),
    (PartitionError("x", blocked=True), follows(BLOCKED)),
    (TransactionAborted("x"), follows(RETRYING, "aborted", discards=False)),
    (TransactionAborted("x", blocked=True), follows(BLOCKED, "aborted", discards=False)),
    (RecordsRefused("x"), follows(BLOCKED)),
    (PoisonRecord("x"), follows(BLOCKED, keeps_incident=True)),
    (TransformFailed("x"), follows(RETRYING)),  # never reaches a step: it is handled like a refused record
    (TransformUnusable("x"), follows(BLOCKED)),
    (ProducerFenced("x"), follows(RETRYING, fenced=True)),
    (OutcomeUnknown("x"), follows(RETRYING, "unknown")),
    (OutcomeUnknown("x", away=True), follows(RETRYING, "unknown")),
    (OutcomeUnknown("x", blocked=True), follows(BLOCKED, "unknown")),
    (Interleaved("x"), follows(RETRYING, "aborted")),
    (PositionUnstable("x"), follows(RETRYING)),
    (SourceDataLost("x"), DECIDE),
    (DecisionNeeded("x"), DECIDE),
    (DecisionNeeded("x", took=1.0), DECIDE),
    (DecisionNeeded("x", took=100.0), replace(DECIDE, retry_after=900.0)),
    (ClusterAway("backup", "x"), follows(RETRYING)),
]


@pytest.mark.parametrize("error, expected", TABLE, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING, RETRYING, BLOCKED])
def test_what_follows_an_error(error: MirrorError, expected: Recovery, state: State) -> None:
    assert recovery(error, state) == expected


@pytest.mark.parametrize("error, expected", TABLE, ids=lambda each: type(each).__name__)
def test_a_paused_partition_stays_paused_without_a_producer(error: MirrorError, expected: Recovery) -> None:
    paused = recovery(error, PAUSED)
    assert (paused.becomes, paused.discards_producer, paused.keeps_incident) == (PAUSED, True, True)
    assert not paused.drops_buffer and paused.retry_after is None
    assert (paused.outcome, paused.fenced) == (expected.outcome, expected.fenced)


def test_the_table_has_every_error_of_a_partition() -> None:
    tree = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, PartitionError)}
    assert tree <= {type(error) for error, _ in TABLE}


def test_only_an_aborted_transaction_spares_the_producer() -> None:
    """Unknown means discard."""
    assert {type(error) for error, it in TABLE if not it.discards_producer} == {TransactionAborted}


def test_an_error_that_is_none_of_ours_is_an_unknown_outcome() -> None:
    """A copier's step turns such an error into OutcomeUnknown, and so the producer is discarded."""
    assert recovery(OutcomeUnknown(f"RuntimeError: {KafkaError._FATAL}"), State.RUNNING).discards_producer
