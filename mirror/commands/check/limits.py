"""Checks that the brokers' settings allow what a flow asks for: time-outs, sizes, replicas, kept positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException

from mirror.commands.check.distance import RECEIVED, SENT, distance
from mirror.commands.check.findings import Finding
from mirror.commands.check.inspection import Description, Inspector
from mirror.kafka.topic_configs import ConfigValue, size_of
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.text import plural
from mirror.topics.config_rules import MAX_BYTES, Rules

RETENTION = 7 * 24 * 60  # minutes: Kafka's own default
Inspected = tuple[Inspector, Description]


class LimitChecks:
    """Checks of one flow. Every method raises ClusterAway, KafkaException, KeyError."""

    def __init__(self, flow: Flow, source: Inspected, target: Inspected, remotes: Mapping[str, str]) -> None:
        """`remotes` has the remote topic of each topic of the source that is mirrored."""
        self._flow = flow
        self._source, self._target = source, target
        self._remotes = remotes

    def all(self) -> Iterator[Finding]:
        """Check all that the settings of the brokers tell, as far as mirror may read them."""
        theirs, ours = _settings(*self._target), _settings(*self._source)
        flow = self._flow
        if theirs is None:
            yield _hidden(flow.target.alias, "time-outs, replication factors and how long positions are kept")
        else:
            if flow.exactly_once:
                yield self._transaction_timeout(theirs)
            yield _kept_positions(theirs)
            yield self._replication(theirs)
        if ours is None:
            yield _hidden(flow.source.alias, "which batches are too large for the target")
        elif theirs is not None:
            yield self._sizes(int(ours["message.max.bytes"]), int(theirs["message.max.bytes"]))
        for cluster, (_, description), settings, buffer in (
            (flow.source, self._source, ours, SENT),
            (flow.target, self._target, theirs, RECEIVED),
        ):
            if found := distance(cluster.alias, description.addresses[0], settings or {}, buffer):
                yield found

    def _transaction_timeout(self, broker: Mapping[str, str]) -> Finding:
        longest, ours = int(broker["transaction.max.timeout.ms"]) / 1000, self._flow.transaction_timeout
        said = f"transaction_timeout is {ours:g} s, the target allows {longest:g} s"
        if ours > longest:
            return Finding("transaction timeout", "FAILED", said, f"set transaction_timeout to {longest:g}s or less")
        return Finding("transaction timeout", "OK", said)

    def _replication(self, broker: Mapping[str, str]) -> Finding:
        brokers = len(self._target[1].brokers)
        wanted = {
            "replication_factor": self._flow.replication_factor,
            "internal_replication_factor": self._flow.internal_replication_factor,
            "the broker's default.replication.factor": int(broker["default.replication.factor"]),
        }
        if self._flow.exactly_once:
            log_factor = "transaction.state.log.replication.factor"
            wanted[f"the broker's {log_factor}"] = int(broker[log_factor])
        many = [f"{name} is {factor}" for name, factor in wanted.items() if factor > brokers]
        if many:
            said = f"{', '.join(many)}, but the target has {plural(brokers, 'broker')}"
            return Finding("replication factors", "FAILED", said, "lower it, or add brokers")
        return Finding("replication factors", "OK", f"fit {plural(brokers, 'broker')}")

    def _sizes(self, ours: int, theirs: int) -> Finding:
        """Find topics whose batches may be too large for the target: a record that it refuses stops its partition.

        `ours` and `theirs` are the `message.max.bytes` of the source's and the target's brokers.
        """
        own, _ = self._source[0].topic_configs(self._remotes)
        existing, _ = self._target[0].topic_configs(self._remotes.values())
        rules = Rules.of(self._flow)

        def allowed(topic: str, remote: str) -> int:
            if remote in existing:
                return _known(existing[remote].get(MAX_BYTES), theirs)
            return new_limit(own.get(topic, {}).get(MAX_BYTES), ours, theirs, rules)

        pairs = self._remotes.items()
        small = [
            name for name, remote in pairs if _known(own.get(name, {}).get(MAX_BYTES), ours) > allowed(name, remote)
        ]
        if small:
            some = some_of(sorted(small))
            said = f"the source takes larger batches than the target, for {plural(len(small), 'topic')}: {some}"
            return Finding("message sizes", "WARNING", said, "raise max.message.bytes of the remote topics")
        return Finding("message sizes", "OK", "the target takes what the source takes")


def new_limit(own: str | None, ours: int, theirs: int, rules: Rules) -> int:
    """The `max.message.bytes` that a remote topic will get when it is created.

    `own` is what is set on the source topic itself; `ours` and `theirs` are the brokers' defaults.
    """
    source = ConfigValue(str(ours) if own is None else own, own=own is not None)
    return _known(rules.at_creation({MAX_BYTES: source}).get(MAX_BYTES), theirs)


def _known(value: str | None, otherwise: int) -> int:
    size = size_of(value)
    return otherwise if size is None else size


def _settings(inspector: Inspector, description: Description) -> dict[str, str] | None:
    """The settings of one broker; None if mirror may not read them."""
    try:
        return inspector.broker_config(description.brokers[0])
    except KafkaException as error:
        if error.args[0].code() != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            raise
    return None


def _hidden(alias: str, what: str) -> Finding:
    said = f"mirror may not read the settings of {alias}'s brokers, so this is not known: {what}"
    return Finding("timeouts and sizes", "WARNING", said, "allow DescribeConfigs on the cluster")


def _kept_positions(broker: Mapping[str, str]) -> Finding:
    minutes = int(broker["offsets.retention.minutes"])
    said = f"the target keeps positions for {minutes / 1440:g} days after the service has stopped"
    if minutes < RETENTION:
        remedy = "raise offsets.retention.minutes: a longer stop loses positions, and partitions wait for a decision"
        return Finding("positions", "WARNING", said, remedy)
    return Finding("positions", "OK", said)
