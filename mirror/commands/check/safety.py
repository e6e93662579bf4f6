"""Judges from a target's own description whether it keeps what was committed, and ends transactions rightly. Pure.

mirror commits records and position together. That what is committed stays is up to the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirror.commands.check.findings import Finding
from mirror.naming import some_of
from mirror.target.timestamps import CLEANUP
from mirror.wire.features import Features
from mirror.wire.transactional import NEEDED_LEVEL, TRANSACTION_VERSION

# 4.3's and 4.4's metadata.version; 4.2 has 29 at most, 4.5 begins at 34. No other number tells these releases apart.
SKIP_MARKERS = range(30, 34)
ADD_PARTITIONS_TO_TXN, VERIFIES = (
    24,
    4,
)  # request with which brokers verify transactions, and its first version for that (KIP-890)
# Request with which brokers are told from those before 3.7, and its first version there. From 3.7 on a partition needs
# no more in-sync replicas than it has replicas (KAFKA-15583).
PRODUCE, LIMITS_IN_SYNC = 0, 10
METADATA_VERSION = "metadata.version"
HAVE_LEVELS = 22  # metadata.version of the first brokers (4.0) that support it
VERIFICATION = "transaction.partition.verification.enable"
NEW = "topics to be created"
COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class Safety:
    """The settings that decide how safe a topic's records are; None where not known."""

    replicas: int | None
    in_sync: int | None  # min.insync.replicas, as it is in effect
    unclean: bool | None  # unclean.leader.election.enable, as it is in effect

    @staticmethod
    def of(replicas: int | None, config: Mapping[str, str]) -> Safety:
        """The settings by the topic's configuration, or by a broker's for topics that are still to be created."""
        in_sync, unclean = config.get("min.insync.replicas", ""), config.get("unclean.leader.election.enable")
        is_unclean = None if unclean is None else unclean == "true"
        return Safety(replicas, int(in_sync) if in_sync.isdigit() else None, is_unclean)

    @property
    def lacks_replicas(self) -> bool:
        """True if there can never be as many replicas in sync as the topic asks for."""
        return self.replicas is not None and self.in_sync is not None and self.in_sync > self.replicas


def replication(
    internal: Mapping[str, Safety], remote: Mapping[str, Safety], versions: Mapping[int, int]
) -> Iterator[Finding]:
    """Check that acknowledged records and positions outlive a broker. `internal` topics carry the protocol.

    `versions` has the highest version of each request that all brokers have.
    """
    lone = [name for name, safety in internal.items() if safety.replicas == 1]
    yield _finding(
        "replicas of internal topics",
        lone,
        "have 1 replica: when its broker loses its disk, positions, transactions or plans are gone, and records come "
        "twice or have to be repaired by hand",
        "give them 3 replicas (kafka-reassign-partitions.sh), and set offsets.topic.replication.factor, "
        "transaction.state.log.replication.factor and internal_replication_factor before they are created",
        "have more than one",
    )
    yield _finding(
        "replicas of remote topics",
        [name for name, safety in remote.items() if safety.replicas == 1],
        "have 1 replica: when its broker loses its disk, copied records are lost, and mirror does not copy them again",
        "give them 3 replicas (kafka-reassign-partitions.sh), and set replication_factor of the flow or "
        "default.replication.factor of the brokers",
        "have more than one",
    )
    together = {**internal, **remote}
    yield _in_sync(together, versions)
    yield _finding(
        "unclean elections",
        [name for name, safety in together.items() if safety.unclean],
        "have unclean.leader.election.enable=true: a replica that lags can become leader and cut off committed "
        "records, and mirror does not copy them again",
        "set unclean.leader.election.enable=false, on the topics or by the brokers' default",
        "not allowed",
    )


def _in_sync(topics: Mapping[str, Safety], versions: Mapping[int, int]) -> Finding:
    """Check that records are written at all, and to more than one replica before they are acknowledged."""
    what = "in-sync replicas"
    short = [name for name, safety in topics.items() if safety.lacks_replicas]
    if short and versions.get(PRODUCE, -1) < LIMITS_IN_SYNC:
        said = "have fewer replicas than min.insync.replicas: brokers before Kafka 3.7 then refuse every record"
        remedy = (
            "give them more replicas (kafka-reassign-partitions.sh), or lower min.insync.replicas; for topics that are "
            "still to be created, set the replication factors or the brokers' default (for __transaction_state it is "
            "transaction.state.log.min.isr)"
        )
        return Finding(what, "FAILED", f"{some_of(sorted(short))}: {said}", remedy)
    return _finding(
        what,
        [name for name, safety in topics.items() if safety.in_sync == 1 and safety.replicas != 1],
        "have min.insync.replicas=1: a record that only one replica has is lost with it, and mirror does not copy "
        "it again",
        "set min.insync.replicas=2, on the topics or by the brokers' default",
        "where there are several replicas, a record is acknowledged by more than one",
    )


def compaction(policies: Mapping[str, str]) -> Finding:
    """Check that nothing deletes old records of mirror's own topics, whose `policies` are these by name.

    The newest record of a key counts for as long as there is no other, so that only compaction may remove records.
    """
    return _finding(
        "compaction of mirror's own topics",
        [name for name, policy in policies.items() if policy != COMPACT],
        f"have another {CLEANUP} than {COMPACT}: plans, orders, decisions and what offsets are translated with are "
        "deleted once they are old",
        f"set {CLEANUP}={COMPACT} on them (kafka-configs.sh)",
        "nothing is deleted because it is old",
    )


def _finding(what: str, names: Collection[str], said: str, remedy: str, well: str) -> Finding:
    if not names:
        return Finding(what, "OK", well)
    return Finding(what, "WARNING", f"{some_of(sorted(names))}: {said}", remedy)


def verification(broker: Mapping[str, str], versions: Mapping[int, int]) -> Finding:
    """Check that brokers refuse a record that comes after its transaction has ended (KIP-890, first part).

    `broker` is a broker's configuration, `versions` the highest version of each request that all brokers have.
    """
    what, value = "late records", broker.get(VERIFICATION)
    cost = (
        "a delayed request can write after its transaction has ended: then readers wait for ever, or in the worst case "
        "see an aborted record, so a record twice"
    )
    if value == "true":
        return Finding(what, "OK", "brokers refuse records that come after their transaction has ended")
    if value is not None:
        return Finding(what, "WARNING", f"{VERIFICATION} is {value}: {cost}", f"set {VERIFICATION}=true on all brokers")
    if versions.get(ADD_PARTITIONS_TO_TXN, -1) < VERIFIES:
        said = f"the brokers do not verify transactions, as Kafka before 3.6: {cost}"
    else:
        said = f"the brokers do not tell whether they verify transactions ({VERIFICATION}): without it {cost}"
    return Finding(what, "WARNING", said, "use Kafka 3.6 or newer, and not 4.3.0 to 4.4.0")


def markers(levels: Sequence[int], brokers: int) -> Finding:
    """Check that the brokers write every transaction's markers, even while a partition has no leader.

    `levels` has the highest metadata.version of each broker that gives it, of `brokers` in all.
    """
    what = "transaction markers"
    skipping = [level for level in levels if level in SKIP_MARKERS]
    if skipping:
        said = (
            f"{len(skipping)} of {brokers} brokers are Kafka 4.3 or 4.4 ({METADATA_VERSION} up to {max(skipping)}; "
            "the patch release is not known). 4.3.0 to 4.4.0 skip the markers of a committed transaction while a "
            "partition has no leader: then its records stay invisible, and its partition is neither read nor copied "
            "any further until a person ends the transaction. Nothing is doubled"
        )
        return Finding(what, "WARNING", said, "use Kafka 4.2, or a release with KAFKA-20734 fixed")
    if len(levels) < brokers:
        silent = f"{brokers - len(levels)} of {brokers} brokers do not tell their release"
        said = f"{silent}: they may be Kafka 4.3.0 to 4.4.0"
        return Finding(what, "WARNING", said, "make sure that they are not: those releases skip markers")
    return Finding(what, "OK", f"no broker is Kafka 4.3 or 4.4 ({METADATA_VERSION} up to {max(levels)})")


def transactions(brokers: Collection[Features], bootstrap: str) -> Finding:
    """Check that the cluster uses transactions v2 (KIP-890, second part). After an upgrade a person enables it."""
    what = "transaction version"
    known = release_levels(brokers)
    if not known:
        remedy = f"look with kafka-features.sh --bootstrap-server {bootstrap} describe, and raise it to {NEEDED_LEVEL}"
        return Finding(what, "WARNING", f"the brokers do not tell {TRANSACTION_VERSION}", remedy)
    able = [broker for broker in brokers if broker.supported.get(METADATA_VERSION, 0) >= HAVE_LEVELS]
    if not able:
        said = f"brokers before Kafka 4.0 have no {TRANSACTION_VERSION}; records are copied one by one"
        return Finding(what, "OK", said)
    level = min(broker.finalized.get(TRANSACTION_VERSION, 0) for broker in able)
    if level >= NEEDED_LEVEL:
        return Finding(what, "OK", f"{TRANSACTION_VERSION} is {level}")
    said = (
        f"{TRANSACTION_VERSION} is {level}, as after an upgrade: when a transaction has timed out or was fenced, "
        "brokers lack the second guard against requests that come late. mirror's own guard stays: it discards a "
        "producer after any failure. Records are copied one by one"
    )
    command = f"kafka-features.sh --bootstrap-server {bootstrap} upgrade --feature {TRANSACTION_VERSION}={NEEDED_LEVEL}"
    return Finding(what, "WARNING", said, command)


def release_levels(brokers: Collection[Features]) -> list[int]:
    """The highest metadata.version of each broker that gives it. It grows with the release."""
    return [broker.supported[METADATA_VERSION] for broker in brokers if METADATA_VERSION in broker.supported]
