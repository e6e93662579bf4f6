"""Checks of a flow's target: that it keeps records, and that it keeps them unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from mirror.commands.check import safety
from mirror.commands.check.findings import Finding
from mirror.commands.check.inspection import Description, Inspector
from mirror.commands.check.safety import Safety
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.target import timestamps

POSITIONS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class TargetChecks:
    """Checks of one flow's target. Every method raises ClusterAway, KafkaException, KeyError."""

    def __init__(self, flow: Flow, target: Inspector, description: Description, remote: Collection[str]) -> None:
        """`remote` has the remote topics that exist already."""
        self._flow = flow
        self._target = target
        self._description = description
        self._remote = remote

    def timestamps(self) -> Iterator[Finding]:
        """Check that the remote topics keep the records' timestamps."""
        what, flow = "timestamps", self._flow
        configs, hidden = self._target.topic_configs(self._remote, own=False)
        replacing = sorted(name for name, own in configs.items() if own.get(timestamps.TYPE) == timestamps.REPLACED)
        if replacing:
            said = f"{some_of(replacing)}: {timestamps.REASON}"
            if flow.accept_log_append_time:
                yield Finding(
                    what, "WARNING", f"{said}; accept_log_append_time accepts it", "nothing, if that is intended"
                )
            else:
                remedy = timestamps.remedy(flow, replacing[0])
                yield Finding(what, "FAILED", f"{said}; its partitions are not copied", remedy)
        elif hidden:
            said = f"not known for {some_of(sorted(hidden))}"
            yield Finding(what, "WARNING", said, "allow DescribeConfigs on the remote topics")
        else:
            yield Finding(what, "OK", "remote topics keep the records' own")

    def safety(self) -> Iterator[Finding]:
        """Check that the target keeps acknowledged records, and ends every transaction as it was asked to."""
        if self._flow.exactly_once:
            addresses = self._description.addresses
            brokers = self._target.features(addresses)
            yield safety.markers(safety.release_levels(brokers), len(addresses))
            yield safety.transactions(brokers, self._flow.target.properties["bootstrap.servers"])
        broker = self._target.broker_config(self._description.brokers[0])
        if self._flow.exactly_once:
            yield safety.verification(broker, self._target.versions())
        yield from self._replication(broker)

    def _replication(self, broker: Mapping[str, str]) -> Iterator[Finding]:
        own = (POSITIONS, *((TRANSACTIONS,) if self._flow.exactly_once else ()), *self._flow.own_topics)
        replicas = self._target.replicas({*own, *self._remote})
        configs, hidden = self._target.topic_configs(replicas, own=False)
        existing = {name: Safety.of(count, configs.get(name, {})) for name, count in replicas.items()}
        internal = {name: existing.get(name) or self._new(name, broker) for name in own}
        remote = {name: existing[name] for name in self._remote if name in existing}
        factor = self._flow.replication_factor
        every = {**remote, safety.NEW: self._default(factor, broker)}
        yield from safety.replication(internal, every, self._target.versions())
        compacted = set(self._flow.own_topics) - {self._flow.dead_letter_topic}
        policies = {name: configs.get(name, {}).get(timestamps.CLEANUP) for name in compacted}
        yield safety.compaction({name: policy for name, policy in policies.items() if policy is not None})
        if hidden:
            said = f"min.insync.replicas and unclean elections are not known for {some_of(sorted(hidden))}"
            yield Finding("topic settings on the target", "WARNING", said, "allow DescribeConfigs on them")

    def _new(self, name: str, broker: Mapping[str, str]) -> Safety:
        """The settings that an internal topic will get when it is created."""
        if name == POSITIONS:
            return Safety.of(int(broker["offsets.topic.replication.factor"]), broker)
        if name == TRANSACTIONS:
            in_sync = broker["transaction.state.log.min.isr"]
            factor = int(broker["transaction.state.log.replication.factor"])
            return Safety.of(factor, {**broker, "min.insync.replicas": in_sync})
        return self._default(self._flow.internal_replication_factor, broker)

    @staticmethod
    def _default(factor: int, broker: Mapping[str, str]) -> Safety:
        return Safety.of(int(broker["default.replication.factor"]) if factor == -1 else factor, broker)
