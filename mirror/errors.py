"""Every error that mirror raises, and who has to act on it.

MirrorError
├── ConfigError        bad input: exit 2, nothing has been started
├── SetupError         Java or another prerequisite is missing: exit 2
├── PartitionError     the partition fails alone, waits and tries again
│   ├── TransactionAborted   the batch left no trace: retry it on the same producer
│   ├── RecordsRefused       for the sake of one or more records: retry with fewer until the culprit is alone
│   ├── PoisonRecord         one record that the target refuses: wait and try again, say which
│   ├── ProducerFenced       a newer owner has the partition: let go unless the plan says it is ours
│   ├── OutcomeUnknown       discard the producer, then fence, load, seek
│   ├── PositionUnstable     a transaction still holds position or records: wait, fence and load again
│   ├── SourceDataLost       the position is not on the source any more: stay failed, say what is lost
│   └── DecisionNeeded       the position or the remote topic can't be believed: stay failed until somebody decides
├── TaskHung           a call into librdkafka does not return: the task ends, Spark starts it in another process
├── FlowError          the flow fails and is started again with back-off
│   ├── Conflict             another flow does not go with it: nothing is copied until that one is stopped or silent
│   └── ForeignPlan          another version of mirror wrote the plan: nothing is copied until it can be read
├── WireError          Kafka's protocol without librdkafka: it can't go on
│   ├── Unsupported          the cluster needs what only librdkafka has
│   ├── Unavailable          a broker does not answer, or a leader moves: try again, with back-off
│   └── Malformed            what was read is no answer, or no record batch, of Kafka
├── ClusterAway        a cluster does not answer: wait with back-off
└── Superseded         another service leads the flow: this service stops, exit 3
"""

from __future__ import annotations


class MirrorError(Exception):
    """Base of all; its text is one line for people: where, what, what to do."""

    exit_code = 1
    away = False  # does a cluster not answer? The leader tells that once, so nobody else has to


class ConfigError(MirrorError):
    """The configuration can't be used. `problems` has one line each, with file, line and key."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SetupError(MirrorError):
    """Something that must be on the machine is not, or is too old."""

    exit_code = 2


class PartitionError(MirrorError):
    """Copying one partition failed; the others go on."""


class TransactionAborted(PartitionError):
    """The transaction was aborted as a whole and may be run again on the same producer."""


class RecordsRefused(PartitionError):
    """The target refuses at least one record of the batch, however often it comes."""


class PoisonRecord(PartitionError):
    """The target refuses this one record."""


class ProducerFenced(PartitionError):
    """A newer producer with the same transactional.id has taken over."""


class OutcomeUnknown(PartitionError):
    """Nobody knows whether the transaction took effect; only the target can tell."""

    def __init__(self, message: str, away: bool = False) -> None:
        super().__init__(message)
        self.away = away


class PositionUnstable(PartitionError):
    """The position (KIP-447) or the remote partition is held by a transaction that has not ended."""


class SourceDataLost(PartitionError):
    """Records between the position and what the source still has are gone, or it is another topic."""


class DecisionNeeded(PartitionError):
    """The position, or the topic that holds the copy, is not what it was: going on could lose or double records."""


class TaskHung(MirrorError):
    """A transaction takes longer than all its time-outs together."""


class FlowError(MirrorError):
    """A flow can't go on as it is and is started again."""


class Conflict(FlowError):
    """Another flow would have records go round for ever, or come twice. `gave_way`: our tasks were told to stop."""

    def __init__(self, message: str, gave_way: bool) -> None:
        super().__init__(message)
        self.gave_way = gave_way


class ForeignPlan(FlowError):
    """The newest plan can't be decoded."""


class WireError(MirrorError):
    """A request of Kafka's protocol failed."""


class Unsupported(WireError):
    """The cluster asks for what only librdkafka can do."""


class Unavailable(WireError):
    """A broker can't be reached, closes the connection or does not answer in time; or a partition's leader moves."""


class Malformed(WireError):
    """What was read breaks the protocol."""


class ClusterAway(MirrorError):
    """A cluster does not answer; tried again with back-off."""

    away = True

    def __init__(self, cluster: str, reason: str) -> None:
        super().__init__(f"cluster {cluster} does not answer: {reason}")
        self.cluster = cluster


class Superseded(MirrorError):
    """Another service has taken the flow over (KIP-618's fencing of leaders)."""

    exit_code = 3
