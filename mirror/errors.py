"""Every error that mirror raises, and who has to act on it.

MirrorError
├── ConfigError        bad input: exit 2 before anything is started
├── SetupError         Java or another prerequisite is missing: exit 2
├── PartitionError     only this partition fails: it waits and tries again
│   ├── TransactionAborted   the batch left no trace: retry it on the same producer
│   ├── RecordsRefused       the target refuses one or more records: retry with fewer until the culprit is alone
│   ├── PoisonRecord         the target refuses this one record: log which, wait and try again
│   ├── ProducerFenced       a newer owner has the partition: release it unless the plan says that it is ours
│   ├── OutcomeUnknown       discard the producer, then fence, load and seek
│   ├── PositionUnstable     an open transaction holds the position or records: wait, fence and load again
│   ├── SourceDataLost       the source has lost records after the position: stay failed and log what is lost
│   └── DecisionNeeded       the position or the remote topic can't be trusted: stay failed until an operator decides
├── TaskHung           a call into librdkafka does not return: the task ends, Spark starts it in another process
├── FlowError          the flow fails and is started again with back-off
│   ├── Conflict             another flow conflicts with it: copy nothing until that flow is stopped or silent
│   └── ForeignPlan          another version of mirror wrote the plan: copy nothing until the plan can be read
├── WireError          a request of our own protocol client (wire/) failed
│   ├── Unsupported          the cluster requires something that only librdkafka can do
│   ├── Unavailable          a broker does not answer, or a leader moves: try again with back-off
│   └── Malformed            the data is not an answer or a record batch of Kafka
├── ClusterAway        a cluster does not answer: wait with back-off
└── Superseded         another service leads the flow: this service stops, exit 3
"""

from __future__ import annotations


class MirrorError(Exception):
    """Base of all errors. The message is one line for people: where, what is wrong, what to do."""

    exit_code = 1
    away = False  # True if a cluster is unreachable: the flow leader logs it once, so others stay quiet


class ConfigError(MirrorError):
    """The configuration cannot be used. `problems` has one line for each problem, with file, line and key."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SetupError(MirrorError):
    """Something that must be installed on the machine is missing or too old."""

    exit_code = 2


class PartitionError(MirrorError):
    """Copying one partition failed; the other partitions are not affected."""


class TransactionAborted(PartitionError):
    """The whole transaction was aborted and may be repeated on the same producer."""


class RecordsRefused(PartitionError):
    """The target refuses at least one record of the batch, and would refuse it again."""


class PoisonRecord(PartitionError):
    """The target refuses this one record."""


class ProducerFenced(PartitionError):
    """Our producer was fenced: a newer one has opened the same transactional.id."""


class OutcomeUnknown(PartitionError):
    """It is not known whether the transaction took effect. Loading the position from the target tells."""

    def __init__(self, message: str, away: bool = False) -> None:
        super().__init__(message)
        self.away = away


class PositionUnstable(PartitionError):
    """A transaction that has not ended holds the position (KIP-447) or the remote partition."""


class SourceDataLost(PartitionError):
    """The source has lost records after the position, or its topic was recreated."""


class DecisionNeeded(PartitionError):
    """The position or the remote topic has changed from outside: to continue could lose or duplicate records."""


class TaskHung(MirrorError):
    """A transaction takes longer than all its time-outs together."""


class FlowError(MirrorError):
    """A flow cannot continue and is started again."""


class Conflict(FlowError):
    """Another flow would copy records in a cycle or twice. `gave_way` is True if our tasks were ordered to stop."""

    def __init__(self, message: str, gave_way: bool) -> None:
        super().__init__(message)
        self.gave_way = gave_way


class ForeignPlan(FlowError):
    """The newest plan cannot be decoded."""


class WireError(MirrorError):
    """A request of our own protocol client (wire/) failed."""


class Unsupported(WireError):
    """The cluster requires something that only librdkafka can do."""


class Unavailable(WireError):
    """A broker cannot be reached, closes the connection or answers too late, or a partition's leader moves."""


class Malformed(WireError):
    """The data that was read violates the protocol."""


class ClusterAway(MirrorError):
    """A cluster does not answer. The caller tries again with back-off."""

    away = True

    def __init__(self, cluster: str, reason: str) -> None:
        super().__init__(f"cluster {cluster} does not answer: {reason}")
        self.cluster = cluster


class Superseded(MirrorError):
    """Another service has taken over the flow (fencing as in KIP-618)."""

    exit_code = 3
