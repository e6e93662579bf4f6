"""What follows an error for a partition, such as a fenced producer: decided here, done by RecordCopier._recover.

Pure: it says in code what the tree in errors.py says in words.
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

DECISION_RETRY = 30.0  # seconds before a partition that is blocked by a loss or a doubt looks again


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the step does about an error, in this order."""

    outcome: Literal["", "aborted", "unknown"]  # of the transaction, if the error tells it; it is counted
    fenced: bool  # another owner has fenced our producer: count it, and ask the plan whose the partition is
    discards_producer: bool  # unknown means discard
    becomes: State  # unless the plan has given the partition to another task: then it is let go
    drops_buffer: bool  # the consumer has to seek, even if the partition is let go
    keeps_incident: bool  # a person still has to decide about the incident
    retry_after: float | None  # seconds; None: as the back-off says


def recovery(error: MirrorError, state: State) -> Recovery:
    """What follows `error` for a partition that was in `state`.

    Only an aborted transaction has left no trace, so only then the producer may go on. (One with interleaved records is
    aborted by the next producer.) A paused partition stays paused: it keeps its position alive at the next try, and has
    no producer meanwhile.
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
        retry_after=DECISION_RETRY if undecided else None,
    )


def _outcome(error: MirrorError) -> Literal["", "aborted", "unknown"]:
    if type(error) in (TransactionAborted, Interleaved):
        return "aborted"
    return "unknown" if type(error) is OutcomeUnknown else ""
