"""What follows an error for a partition, such as a fenced producer. Pure: the tree in errors.py, in code.

It is decided here. RecordCopier._recover does it on the record path, and SupervisedBatchCopier._recover on the batch
path, where a session ends with each error and there is no buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mirror.control.partition_state import State
from mirror.errors import (
    DecisionNeeded,
    Interleaved,
    MirrorError,
    OutcomeUnknown,
    PoisonRecord,
    ProducerFenced,
    SourceDataLost,
    TransactionAborted,
)

DECISION_RETRY = 30.0  # seconds before a partition that waits for a decision tries again
# The same as a multiple of the time that the last try took: it may have read whole logs, and others use the clusters.
DECISION_REST = 9.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the copier does about an error."""

    # The transaction's, which is counted if one was begun; empty if the error does not say.
    outcome: Literal["", "aborted", "unknown"]
    fenced: bool  # another owner has fenced our producer: count it, and ask the plan whose the partition is
    discards_producer: bool  # after every error but TransactionAborted
    becomes: State  # if we were fenced and the plan has given the partition to another task, it is let go instead
    drops_buffer: bool  # empty the buffer, so that the consumer seeks
    keeps_incident: bool  # a person still has to decide about the incident
    retry_after: float | None  # seconds; None: as the back-off says


def recovery(error: MirrorError, state: State) -> Recovery:
    """What follows `error` for a partition that was in `state`.

    Only an aborted transaction has left no trace, so only then the producer may go on. After Interleaved the
    transaction is still open, and the next producer aborts it. A paused partition stays paused: at the next try it only
    commits its position again, and it has no producer until then.
    """
    paused = state is State.PAUSED
    undecided = not paused and isinstance(error, SourceDataLost | DecisionNeeded)
    return Recovery(
        outcome=_outcome(error),
        fenced=isinstance(error, ProducerFenced),
        discards_producer=paused or not isinstance(error, TransactionAborted),
        becomes=State.PAUSED if paused else State.BLOCKED if error.blocked else State.RETRYING,
        drops_buffer=undecided,
        keeps_incident=paused or isinstance(error, SourceDataLost | PoisonRecord | DecisionNeeded),
        retry_after=_decision_retry(error) if undecided else None,
    )


def _decision_retry(error: MirrorError) -> float:
    took = error.took if isinstance(error, DecisionNeeded) else 0.0
    return max(DECISION_RETRY, DECISION_REST * took)


def _outcome(error: MirrorError) -> Literal["", "aborted", "unknown"]:
    if type(error) in (TransactionAborted, Interleaved):
        return "aborted"
    return "unknown" if type(error) is OutcomeUnknown else ""
