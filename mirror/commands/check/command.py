"""`mirror check`: would a run work? Asks both clusters of each flow, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaException

from mirror.commands.check.inspection import Description, Probe
from mirror.commands.check.safety import Finding
from mirror.commands.check.target import TargetChecks
from mirror.commands.plan import preview
from mirror.control.other_flows import Neighbours
from mirror.errors import ClusterAway, FlowError, PartitionError, SetupError
from mirror.naming import ReplicationPolicy, left_out_topics, some_of
from mirror.settings import Cluster, Flow, Settings, Spark
from mirror.spark import security
from mirror.spark.java import java
from mirror.text import plural

Outcome = Literal["OK", "WARNING", "FAILED"]

# The versions of Kafka's APIs that the protocol needs, by key, and since which broker they are there.
NEEDED = {
    "source": {1: ("Fetch", 4, "0.11"), 2: ("ListOffsets", 2, "0.11"), 3: ("Metadata", 10, "2.8")},
    "target": {
        3: ("Metadata", 10, "2.8"),
        9: ("OffsetFetch", 7, "2.5"),
        22: ("InitProducerId", 0, "0.11"),
        28: ("TxnOffsetCommit", 3, "2.5"),
    },
    "target without transactions": {
        3: ("Metadata", 10, "2.8"),
        9: ("OffsetFetch", 7, "2.5"),
        22: ("InitProducerId", 0, "0.11"),
    },
}
RETENTION = 7 * 24 * 60  # minutes: Kafka's own default
AHEAD = 5_000  # ms that a record may be in the future
SOME = 3  # names told of a long list


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the answer."""

    scope: str  # a cluster's alias, a flow's name, or "this machine"
    what: str
    outcome: Outcome
    said: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" -> {self.remedy}" if self.remedy else ""
        return f"{self.outcome:<8} {self.scope}: {self.what}: {self.said}{remedy}"


def check(settings: Settings, flows: Sequence[Flow]) -> Iterator[Check]:
    """All checks, each as soon as it is done."""
    yield _java()
    yield from _spark(settings.spark)
    clusters = {cluster.alias: cluster for flow in flows for cluster in (flow.source, flow.target)}
    roles = {alias: _roles(alias, flows) for alias in clusters}
    probes: dict[str, tuple[Probe, Description]] = {}
    for alias, cluster in clusters.items():
        found = yield from _reach(cluster)
        if found:
            probes[alias] = found
            yield from _versions(alias, found[0], roles[alias])
    for flow in flows:
        if {flow.source.alias, flow.target.alias} <= probes.keys():
            yield from _FlowChecks(flow, probes).all()
        else:
            yield Check(flow.name, "flow", "FAILED", "not checked: a cluster is not reached")


def _java() -> Check:
    try:
        java()
    except SetupError as error:
        return Check("this machine", "Java", "FAILED", str(error))
    return Check("this machine", "Java", "OK", "17 or newer")


def _spark(spark: Spark) -> Iterator[Check]:
    """Who could read what Spark holds."""
    said = list(security.warnings(spark.master, spark.conf))
    for line in said:
        what, _, remedy = line.rpartition("; ")
        yield Check("this machine", "Spark's protection", "WARNING", what, remedy)
    if not said:
        yield Check("this machine", "Spark's protection", "OK", "only who knows its secret can connect")


def _roles(alias: str, flows: Sequence[Flow]) -> set[str]:
    targets = {
        "target" if flow.exactly_once else "target without transactions" for flow in flows if flow.target.alias == alias
    }
    return targets | {"source" for flow in flows if flow.source.alias == alias}


def _reach(cluster: Cluster) -> Generator[Check, None, tuple[Probe, Description] | None]:
    """Yields the check, returns probe and description."""
    probe = Probe(cluster)
    try:
        found = probe.describe()
    except (ClusterAway, KafkaException) as error:
        said = str(error) if isinstance(error, ClusterAway) else error.args[0].str()
        remedy = (
            "check bootstrap.servers, security.protocol and sasl.* or ssl.* of the cluster, and that its brokers run"
        )
        yield Check(cluster.alias, "connection", "FAILED", said, remedy)
        return None
    count = len(found.brokers)
    if not count:
        yield Check(cluster.alias, "connection", "FAILED", "it names no broker: it may be starting", "try again")
        return None
    said = f"reached and authenticated: {plural(count, 'broker')}, cluster id {found.cluster_id}"
    yield Check(cluster.alias, "connection", "OK", said)
    return probe, found


def _versions(alias: str, probe: Probe, roles: set[str]) -> Iterator[Check]:
    known = probe.versions()
    if not known:
        yield Check(alias, "API versions", "WARNING", "its brokers did not tell them", "use Kafka 2.8 or newer")
        return
    for role in sorted(roles):
        old = [need for key, need in NEEDED[role].items() if known.get(key, -1) < need[1]]
        if old:
            name, version, since = max(old, key=lambda need: tuple(map(int, need[2].split("."))))
            said = f"as a {role} it is too old: no {name} version {version}"
            yield Check(alias, "API versions", "FAILED", said, f"upgrade its brokers to Kafka {since} or newer")
        else:
            yield Check(alias, "API versions", "OK", f"it can be a {role}")


class _FlowChecks:
    """Of one flow, whose clusters are both reached."""

    def __init__(self, flow: Flow, probes: Mapping[str, tuple[Probe, Description]]) -> None:
        self._flow = flow
        self._source, self._source_is = probes[flow.source.alias]
        self._target, self._target_is = probes[flow.target.alias]
        policy = ReplicationPolicy.of(flow)
        found = self._source.partitions()
        self._topics = {name: count for name, count in found.items() if policy.is_mirrored(name)}
        self._left_out = left_out_topics(policy, found)
        self._existing = self._target.partitions()
        self._remotes = {name: policy.remote_topic(name) for name in self._topics}
        self._remote = set(self._remotes.values()) & self._existing.keys()

    def all(self) -> Iterator[Check]:
        """Every check; what a cluster refuses to tell is a warning."""
        yield self._clusters_differ()
        yield self._topics_found()
        for reason, names in self._left_out.items():
            yield self._check("topics left out", "OK", f"{plural(len(names), 'topic')}: {some_of(names)}: {reason}")
        target = TargetChecks(self._flow, self._target, self._target_is, self._remote)
        for what, checks in (
            ("permissions on the source", self._source_permissions),
            ("permissions on the target", self._target_permissions),
            ("timeouts and sizes", self._limits),
            ("timestamps", lambda: self._told(target.timestamps())),
            ("safety of the target", lambda: self._told(target.safety())),
            ("clocks", self._clocks),
            ("decisions", self._decisions),
            ("other flows", self._other_flows),
        ):
            try:
                yield from checks()
            except (ClusterAway, FlowError, PartitionError) as error:
                yield self._check(what, "FAILED", str(error))
            except KafkaException as error:
                yield self._check(what, "WARNING", f"can't be told: {error.args[0].str()}", "check it yourself")
            except KeyError as error:  # some brokers that are not Apache's describe only some of their settings
                yield self._check(what, "WARNING", f"can't be told: the broker has no {error}", "check it yourself")

    def _check(self, what: str, outcome: Outcome, said: str, remedy: str = "") -> Check:
        return Check(self._flow.name, what, outcome, said, remedy)

    def _told(self, findings: Iterable[Finding]) -> Iterator[Check]:
        return (self._check(*finding) for finding in findings)

    def _clusters_differ(self) -> Check:
        if self._source_is.cluster_id == self._target_is.cluster_id:
            return self._check(
                "clusters", "FAILED", "source and target are the same cluster", "correct bootstrap.servers"
            )
        return self._check("clusters", "OK", "source and target are two clusters")

    def _topics_found(self) -> Check:
        if not self._topics:
            remedy = "correct topics and exclude, or allow Describe on them"
            return self._check("topics", "WARNING", "no topic of the source that can be seen is mirrored", remedy)
        return self._check("topics", "OK", f"{len(self._topics)} to mirror, {len(self._remote)} already on the target")

    def _source_permissions(self) -> Iterator[Check]:
        allowed = self._source.topic_operations(self._topics)
        yield from self._lacking("permissions on the source", allowed, {"READ", "DESCRIBE"}, "FAILED")
        named = "topic configurations on the source"
        yield from self._lacking(named, allowed, {"DESCRIBE_CONFIGS"}, "WARNING")

    def _lacking(
        self, what: str, allowed: Mapping[str, Iterable[str]], needed: set[str], outcome: Outcome, kind: str = "topic"
    ) -> Iterator[Check]:
        lacking = {name: sorted(needed - set(has)) for name, has in allowed.items() if needed - set(has)}
        words = ", ".join(operation.title().replace("_", "") for operation in sorted(needed))
        if not lacking:
            if allowed:
                yield self._check(what, "OK", f"{words} on {plural(len(allowed), kind)}")
            return
        some = ", ".join(sorted(lacking)[:SOME]) + (", ..." if len(lacking) > SOME else "")
        said = f"{words} is not allowed on {plural(len(lacking), kind)}: {some}"
        yield self._check(what, outcome, said, f"allow {words} on them")

    def _target_permissions(self) -> Iterator[Check]:
        flow = self._flow
        own = self._existing.keys() & flow.own_topics
        topics = self._target.topic_operations(self._remote | own)
        remote = {name: has for name, has in topics.items() if name in self._remote}
        yield from self._lacking("permissions on the target", remote, {"READ", "WRITE", "DESCRIBE"}, "FAILED")
        yield from self._lacking("adding partitions on the target", remote, {"ALTER"}, "WARNING")
        internal = {name: has for name, has in topics.items() if name in own}
        yield from self._lacking("mirror's own topics", internal, {"READ", "WRITE", "DESCRIBE"}, "FAILED")
        group = {flow.group: self._target.group_operations(flow.group)}
        yield from self._lacking("the position's group", group, {"READ"}, "FAILED", "group")
        missing = len(self._topics) - len(self._remote) + len(flow.own_topics) - len(own)
        if missing and "CREATE" not in self._target_is.operations:
            said = f"{plural(missing, 'topic')} to create, and Create is not allowed on the cluster"
            remedy = "allow Create on the cluster, or on the topics by a prefixed ACL, which can't be seen from outside"
            yield self._check("creating topics", "WARNING", said, remedy)
        elif missing:
            yield self._check("creating topics", "OK", f"Create on the cluster, for {plural(missing, 'topic')}")
        if not flow.exactly_once:
            return
        if self._target.has_acls():
            said = "Kafka tells nobody what is allowed on transactional ids"
            remedy = f"see that Write and Describe are allowed on those that begin with {flow.group}/"
            yield self._check("transactional ids", "WARNING", said, remedy)
        else:
            yield self._check("transactional ids", "OK", "the target has no ACLs")

    def _limits(self) -> Iterator[Check]:
        flow, broker = self._flow, self._target.broker_config(self._target_is.brokers[0])
        if flow.exactly_once:
            yield self._transaction_timeout(broker)
        minutes = int(broker["offsets.retention.minutes"])
        said = f"the target keeps positions for {minutes / 1440:g} days after the service has stopped"
        remedy = "raise offsets.retention.minutes: after a longer stop the flow would begin at its start again"
        short = minutes < RETENTION
        yield self._check("positions", "WARNING" if short else "OK", said, remedy if short else "")
        yield self._replication(broker)
        yield from self._sizes(broker)

    def _transaction_timeout(self, broker: Mapping[str, str]) -> Check:
        longest, ours = int(broker["transaction.max.timeout.ms"]) / 1000, self._flow.transaction_timeout
        said = f"transaction_timeout is {ours:g} s, the target allows {longest:g} s"
        if ours > longest:
            return self._check("transaction timeout", "FAILED", said, f"set it to {longest:g}s or less")
        return self._check("transaction timeout", "OK", said)

    def _replication(self, broker: Mapping[str, str]) -> Check:
        brokers = len(self._target_is.brokers)
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
            return self._check("replication factors", "FAILED", said, "lower it, or add brokers")
        return self._check("replication factors", "OK", f"fit {plural(brokers, 'broker')}")

    def _sizes(self, broker: Mapping[str, str]) -> Iterator[Check]:
        """A record that the target refuses holds its partition back."""
        theirs = int(broker["message.max.bytes"])
        ours = int(self._source.broker_config(self._source_is.brokers[0])["message.max.bytes"])
        own, _ = self._source.topic_configs(self._topics)
        policy = ReplicationPolicy.of(self._flow)
        existing, _ = self._target.topic_configs(self._remote)
        small = []
        for topic in self._topics:
            source = int(own.get(topic, {}).get("max.message.bytes", ours))
            # A remote topic that is still to be created gets the source's own setting.
            copied = existing.get(policy.remote_topic(topic), own.get(topic, {}))
            if source > int(copied.get("max.message.bytes", theirs)):
                small.append(topic)
        if small:
            some = ", ".join(sorted(small)[:SOME]) + (", ..." if len(small) > SOME else "")
            said = f"the source takes larger batches than the target, for {plural(len(small), 'topic')}: {some}"
            yield self._check("message sizes", "WARNING", said, "raise max.message.bytes of the remote topics")
        else:
            yield self._check("message sizes", "OK", "the target takes what the source takes")

    def _decisions(self) -> Iterator[Check]:
        """Where copying could double or lose records, partitions wait for a decision."""
        blocked = preview(self._flow).blocked
        if blocked:
            first = blocked[0]
            said = f"{plural(len(blocked), 'partition')} would be blocked, e.g. {first.topic}-{first.partition}"
            yield self._check("decisions", "WARNING", f"{said}: {first.blocked}", "decide once the service runs")
        else:
            yield self._check("decisions", "OK", "no partition would wait for a decision")

    def _clocks(self) -> Iterator[Check]:
        """The only clocks that can be seen are those that have stamped records, and only if they are ahead."""
        now = time.time() * 1000
        ahead = {t: at - now for t, at in self._source.newest_timestamps(self._topics.items()) if at > now + AHEAD}
        if ahead:
            worst = max(ahead, key=lambda topic: ahead[topic])
            said = f"the newest record of {worst} is {ahead[worst] / 1000:,.0f} s in the future"
            remedy = "set the clocks of its producers, of the brokers and of this machine by NTP: latency can't be told"
            yield self._check("clocks", "WARNING", said, remedy)
        else:
            yield self._check("clocks", "OK", "no record is from the future (a clock that is behind can't be seen)")

    def _other_flows(self) -> Iterator[Check]:
        found = Neighbours(self._flow).look(self._remotes)
        for note in found.refusals:
            yield self._check("other flows", "FAILED", *note)
        for note in found.warnings:
            yield self._check("other flows", "WARNING", *note)
        if not (found.refusals or found.warnings):
            yield self._check("other flows", "OK", "none that copies in a circle, or what this one copies")
