"""Every error that mirror raises: what it stops, and whether mirror goes on by itself or waits for a person.

An error stops a command, a partition, a task, a flow or the service. What it stops is *retrying*: mirror tries again,
and goes on by itself. If the error is `blocked`, it waits for a person, and nothing else ends it. The log line about a
partition or a flow has the fields `flow`, `state` and `reason`, and for a partition also `topic` and `partition`. For a
partition, the function `recovery` in task/error_recovery.py says the same in code.

MirrorError
├── ConfigError        command, service: ends with exit code 2; a person corrects the configuration
├── SetupError         command, service: ends with exit code 2; a person installs what is missing
│   └── TokenProviderUnusable   the same for a user's token provider, which a person corrects
├── NotComparable      topic or partition: mirror verify says why, and compares the others
├── PartitionError     partition: retrying; blocked if only a person can end it, e.g. where a permission is missing
│   ├── TransactionAborted   retrying on the same producer: the batch left no trace
│   ├── RecordsRefused       copied again in smaller batches, until the refused record is alone
│   ├── PoisonRecord         blocked: one record that the target refuses, or for which the transform fails
│   ├── TransformFailed      handled like a refused record: on_poison_record decides
│   ├── TransformUnusable    blocked: the topic's transform can't be used; `mirror run` and `verify` end with it
│   ├── ProducerFenced       retrying if the plan says that the partition is ours, else let go
│   ├── OutcomeUnknown       retrying with another producer: fence, load, seek
│   ├── Interleaved          retrying with another producer, more carefully: records are not where they should be
│   ├── PositionUnstable     retrying: a transaction still holds the position or the records
│   ├── SourceDataLost       blocked: the position is not on the source any more
│   └── DecisionNeeded       blocked: the position, or the remote topic, can't be believed
├── TaskHung           task: Spark starts it again, in another process
├── FlowError          flow: retrying; blocked if only a person can end it
│   ├── Conflict             blocked: another flow conflicts with it
│   └── ForeignPlan          blocked: another version of mirror wrote the plan
├── WireError          partition on the batch path: retrying (where it writes, as OutcomeUnknown);
│   │                  command, or one of its checks: reported, and not tried again by itself
│   ├── Unsupported          partition: leaves the batch path; command: uses librdkafka, or says what it can't check
│   ├── Unavailable          the request is tried again with back-off for a while
│   │   └── Unanswered           the request may have taken effect: mirror looks for that before another try
│   ├── LoginRefused         a broker refuses the login: as if the cluster did not answer
│   ├── Refused              a broker's error code that does not pass by itself; the source's: partition: leaves the
│   │                        batch path
│   └── Malformed            an answer breaks Kafka's protocol; or a record batch: its partition leaves the batch path
├── ClusterAway        partition, task, flow: retrying; command: ends with exit code 1
└── Superseded         flow: stopped, another service leads it; a service with no other flow ends with exit code 3,
                       and one that has stood by at once
"""

from __future__ import annotations


class MirrorError(Exception):
    """Base of all. The text is one line for people: where, what, what to do.

    A plain MirrorError ends the command or the service.
    """

    exit_code = 1
    away = False  # True if a cluster does not answer. The flow leader logs that; others do only if it lasts
    blocked = False  # True if only a person can end it; False if it passes by itself


class ConfigError(MirrorError):
    """The configuration can't be used: nothing is started until a person corrects it.

    `problems` has one line each, with file, line and key.
    """

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SetupError(MirrorError):
    """Something that must be on the machine is missing or too old: nothing is started until a person installs it."""

    exit_code = 2


class TokenProviderUnusable(SetupError):
    """A user's token provider can't be used: the command or service ends."""


class NotComparable(MirrorError):
    """A topic or a partition can't be compared. `mirror verify` says why, and goes on with the others.

    The topic's transform depends on more than the record, or the partition has the same records again and again.
    """


class PartitionError(MirrorError):
    """Copying one partition failed; the others go on. The partition is retrying, or blocked if `blocked` is True."""

    def __init__(self, message: str, blocked: bool | None = None) -> None:
        super().__init__(message)
        if blocked is not None:
            self.blocked = blocked


class TransactionAborted(PartitionError):
    """The transaction was aborted as a whole: the partition is retrying, on the same producer."""


class RecordsRefused(PartitionError):
    """The target refuses at least one record of the batch, however often it comes.

    The partition goes on with smaller batches, until the refused record is alone. That record is a PoisonRecord, or is
    passed over. Records of mirror's own topics can't be passed over: then the partition is blocked.
    """

    blocked = True


class PoisonRecord(PartitionError):
    """One record can't be copied. The partition is blocked until a person makes the target take it, or passes it over.

    The target refuses it, or the topic's transform fails for it.
    """

    blocked = True


class TransformFailed(PartitionError):
    """A user's transform has raised, or returned what is no record. `on_poison_record` says what becomes of it."""


class TransformUnusable(PartitionError):
    """A user's transform can't be used: command or service end. If only a task can't use it, its topics are blocked."""

    exit_code = 2
    blocked = True


class ProducerFenced(PartitionError):
    """A newer producer has the same transactional.id. The partition is retrying, or let go if it is not ours."""


class OutcomeUnknown(PartitionError):
    """Nobody knows whether the transaction took effect. The partition is retrying: it asks the target."""

    def __init__(self, message: str, away: bool = False, blocked: bool | None = None) -> None:
        super().__init__(message, blocked)
        self.away = away


class Interleaved(PartitionError):
    """The records are not where they should be: some are lost, or others write to the remote partition, too.

    The transaction was not ended, so the next producer aborts it. In its first transaction, that one waits for each
    batch to be replicated: then nothing depends on where the records are. `appended` has the fields of AppendedOffsets
    (target/written.py), if they make sense.
    """

    def __init__(self, message: str, appended: tuple[int | None, int, int, int] | None = None) -> None:
        super().__init__(message)
        self.appended = appended


class PositionUnstable(PartitionError):
    """A transaction that has not ended holds the position (KIP-447) or the remote partition. The partition is retrying.

    It is raised, too, if the position comes from a stale coordinator of the group.
    """


class SourceDataLost(PartitionError):
    """Records between the position and what the source still has are gone, or the source has another topic now.

    The partition is blocked until a person decides with `mirror resume --skip-lost`, or the source has them again.
    """

    blocked = True


class DecisionNeeded(PartitionError):
    """The position, or the topic that holds the copy, is not what it was: going on could lose or double records.

    The partition is blocked until a person decides with `mirror resume`. `took` are the seconds for which the task has
    looked in vain for what the decision that was made needs: it looks again later.
    """

    blocked = True

    def __init__(self, message: str, took: float = 0.0) -> None:
        super().__init__(message)
        self.took = took


class TaskHung(MirrorError):
    """A transaction takes longer than all its time-outs together: the task ends, and Spark starts another one."""


class FlowError(MirrorError):
    """A flow can't go on as it is. It is retrying, with back-off, or blocked if `blocked` is True."""

    def __init__(self, message: str, blocked: bool | None = None) -> None:
        super().__init__(message)
        if blocked is not None:
            self.blocked = blocked


class Conflict(FlowError):
    """Because of another flow, records would go round for ever, or be copied twice.

    The flow is blocked until the other one is stopped. `gave_way` is True if our tasks were told to stop.
    """

    blocked = True

    def __init__(self, message: str, gave_way: bool) -> None:
        super().__init__(message)
        self.gave_way = gave_way


class ForeignPlan(FlowError):
    """The newest plan can't be decoded: the flow is blocked until a person runs the version that wrote it."""

    blocked = True


class WireError(MirrorError):
    """A request in Kafka's protocol failed. A command, or one of its checks, says so.

    A partition on the batch path is retrying. Where it writes to the target, the error becomes an OutcomeUnknown, a
    ProducerFenced or another PartitionError. After a failed fetch, the fetcher looks for the partition's leader again,
    and only an error of that look stops the partition.

    `code` is Kafka's error code, if a broker has answered with one.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unsupported(WireError):
    """The cluster is too old for mirror's own client of Kafka's protocol, or asks for what only librdkafka can do.

    A partition leaves the batch path. A command uses librdkafka instead, or says what it can't check.
    """


class Unavailable(WireError):
    """A broker can't be reached, closes the connection or does not answer in time; or a partition's leader moves.

    For a while, the request is tried again with back-off.
    """


class Unanswered(Unavailable):
    """A request was sent, and no answer came: it may have taken effect.

    A request that only asks is tried again. Before a request that changes something is tried again, mirror looks
    whether the change was made.
    """


class LoginRefused(WireError):
    """A broker refuses the login. Another password may come, or a new token: it is as if the cluster did not answer.

    A broker that has just started may not know the users yet.
    """

    away = True


class Refused(WireError):
    """A broker refuses the request with an error code that does not pass by itself.

    If the source refuses, the partition leaves the batch path: the record path has the policies for that.
    """


class Malformed(WireError):
    """What was read breaks Kafka's protocol. A command ends.

    A partition whose record batch is malformed leaves the batch path. After a malformed answer, the partition is
    retrying; after several of the source's, it leaves the batch path.
    """


class ClusterAway(MirrorError):
    """A cluster does not answer. The partition, task or flow is retrying, with back-off. A command ends."""

    away = True

    def __init__(self, cluster: str, reason: str) -> None:
        super().__init__(f"cluster {cluster} does not answer: {reason}")
        self.cluster = cluster


class Superseded(MirrorError):
    """Another service has taken the flow over, as in KIP-618. In this service the flow is stopped for good."""

    exit_code = 3
