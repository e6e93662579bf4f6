"""`mirror check`: asks both clusters of each flow whether a run would work. Changes nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence

from confluent_kafka import KafkaException, libversion

from mirror.commands.check.findings import Check
from mirror.commands.check.flow_checks import FlowChecks
from mirror.commands.check.inspection import Description, Inspector
from mirror.errors import ClusterAway, FlowError, SetupError, TokenProviderUnusable, TransformUnusable
from mirror.kafka.librdkafka_log import unchecked
from mirror.service_settings import Settings, Spark
from mirror.settings import Cluster, Flow
from mirror.spark import security
from mirror.spark.java import java
from mirror.text import plural
from mirror.transform import load

# For each role of a cluster, the APIs that mirror needs, by key: name, version, and the first Kafka that has it.
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


def check(settings: Settings, flows: Sequence[Flow]) -> Iterator[Check]:
    """Run all checks, and yield each as soon as it is done."""
    yield _java()
    yield _librdkafka()
    yield from _spark(settings.spark)
    clusters = {cluster.alias: cluster for flow in flows for cluster in (flow.source, flow.target)}
    roles = {alias: _roles(alias, flows) for alias in clusters}
    inspectors: dict[str, tuple[Inspector, Description]] = {}
    for alias, cluster in clusters.items():
        found = yield from _reach(cluster)
        if found:
            inspectors[alias] = found
            yield from _versions(alias, found[0], roles[alias])
    for flow in flows:
        for each in settings.warned(flow):
            yield Check(flow.name, "configuration", "WARNING", each.said, each.remedy)
        yield from _transforms(flow)
        if {flow.source.alias, flow.target.alias} <= inspectors.keys():
            yield from _flow(flow, inspectors)
        else:
            yield Check(flow.name, "flow", "FAILED", "not checked, for one of its clusters is not reached")


def _flow(flow: Flow, inspectors: Mapping[str, tuple[Inspector, Description]]) -> Iterator[Check]:
    """Check a flow. If a cluster is gone by now, or its plan can't be read, the findings of other flows still count."""
    try:
        found = FlowChecks(flow, inspectors)
    except (ClusterAway, FlowError, KafkaException) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        yield Check(flow.name, "flow", "FAILED", f"not checked: {said}")
        return
    yield from found.all()


def _java() -> Check:
    try:
        java()
    except SetupError as error:
        return Check("this machine", "Java", "FAILED", str(error))
    return Check("this machine", "Java", "OK", "17 or newer")


def _librdkafka() -> Check:
    """Compare the installed librdkafka with those whose log mirror can read."""
    version = libversion()[0]
    if said := unchecked(version):
        return Check("this machine", "librdkafka", "WARNING", *said)
    return Check("this machine", "librdkafka", "OK", f"{version}, whose log lines mirror was tested with")


def _spark(spark: Spark) -> Iterator[Check]:
    """Check who could read the passwords that Spark holds."""
    said = list(security.warnings(spark.master, spark.conf))
    for line in said:
        what, _, remedy = line.rpartition("; ")
        yield Check("this machine", "Spark's protection", "WARNING", what, remedy)
    if not said:
        yield Check("this machine", "Spark's protection", "OK", "only processes that know its secret can connect")


def _transforms(flow: Flow) -> Iterator[Check]:
    """Import the flow's transforms, as a run does first. Executors may still lack what these modules import."""
    for path in flow.transforms:
        try:
            load(path)
        except TransformUnusable as error:
            yield Check(flow.name, "transforms", "FAILED", *str(error).rsplit("; ", 1))
        else:
            yield Check(flow.name, "transforms", "OK", f"{path} can be imported")


def _roles(alias: str, flows: Sequence[Flow]) -> set[str]:
    targets = {
        "target" if flow.exactly_once else "target without transactions" for flow in flows if flow.target.alias == alias
    }
    return targets | {"source" for flow in flows if flow.source.alias == alias}


def _reach(cluster: Cluster) -> Generator[Check, None, tuple[Inspector, Description] | None]:
    """Connect to a cluster: yields the check, and returns the inspector and the cluster's description if it answers."""
    inspector = Inspector(cluster)
    try:
        found = inspector.describe()
    except TokenProviderUnusable as error:
        yield Check(cluster.alias, "token provider", "FAILED", *str(error).rsplit("; ", 1))
        return None
    except (ClusterAway, KafkaException) as error:
        said = str(error) if isinstance(error, ClusterAway) else error.args[0].str()
        remedy = (
            "check bootstrap.servers, security.protocol and sasl.* or ssl.* of the cluster, and that its brokers run"
        )
        yield Check(cluster.alias, "connection", "FAILED", said, remedy)
        return None
    count = len(found.brokers)
    if not count:
        yield Check(
            cluster.alias, "connection", "FAILED", "the cluster names no broker: it may be starting", "try again"
        )
        return None
    said = f"reached and authenticated: {plural(count, 'broker')}, cluster id {found.cluster_id}"
    yield Check(cluster.alias, "connection", "OK", said)
    return inspector, found


def _versions(alias: str, inspector: Inspector, roles: set[str]) -> Iterator[Check]:
    known = inspector.versions()
    if not known:
        yield Check(alias, "API versions", "WARNING", "its brokers did not give them", "use Kafka 2.8 or newer")
        return
    for role in sorted(roles):
        old = [need for key, need in NEEDED[role].items() if known.get(key, -1) < need[1]]
        if old:
            name, version, since = max(old, key=lambda need: tuple(map(int, need[2].split("."))))
            said = f"too old to be a {role}: no {name} version {version}"
            yield Check(alias, "API versions", "FAILED", said, f"upgrade its brokers to Kafka {since} or newer")
        else:
            yield Check(alias, "API versions", "OK", f"new enough to be a {role}")
