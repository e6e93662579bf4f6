"""How far a target can keep the promise: judged from what it says of itself. Pure.

mirror commits records and position together, and what is committed has to stay. That is for the target to see to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mirror.naming import some_of
from mirror.wire.features import Features

# 4.3's and 4.4's metadata.version; 4.2 has 29 at most, 4.5 begins at 34. No other number tells these releases apart.
SKIP_MARKERS = range(30, 34)
ADD_PARTITIONS_TO_TXN, VERIFIES = 24, 4  # the request by which brokers verify, and its first version that can (KIP-890)
TRANSACTION_VERSION, METADATA_VERSION = "transaction.version", "metadata.version"
NEEDED_LEVEL = 2  # of transaction.version
HAVE_LEVELS = 22  # metadata.version of the first brokers (4.0) that can do that
VERIFICATION = "transaction.partition.verification.enable"
NEW = "topics to be created"


class Finding(NamedTuple):
    """One line of `mirror check`."""

    what: str
    outcome: Literal["OK", "WARNING", "FAILED"]
    said: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Safety:
    """Of one topic: how safe what it has taken is. None: not known."""

    replicas: int | None
    in_sync: int | None  # min.insync.replicas, as it is in effect
    unclean: bool | None  # unclean.leader.election.enable, as it is in effect

    @staticmethod
    def of(replicas: int | None, config: Mapping[str, str]) -> Safety:
        """From its own configuration, or a broker's for topics to be created."""
        in_sync, unclean = config.get("min.insync.replicas", ""), config.get("unclean.leader.election.enable")
        is_unclean = None if unclean is None else unclean == "true"
        return Safety(replicas, int(in_sync) if in_sync.isdigit() else None, is_unclean)


def replication(internal: Mapping[str, Safety], remote: Mapping[str, Safety]) -> Iterator[Finding]:
    """Do acknowledged records and positions outlive a broker? `internal` are those topics that carry the protocol."""
    lone = [name for name, safety in internal.items() if safety.replicas == 1]
    yield _finding(
        "replicas of internal topics",
        lone,
        "have 1 replica: when its broker loses its disk, positions, transactions or plans are gone, and records come "
        "twice or have to be looked after by hand",
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
    yield _finding(
        "in-sync replicas",
        [name for name, safety in together.items() if safety.in_sync == 1 and safety.replicas != 1],
        "have min.insync.replicas=1: what one replica alone has acknowledged is lost with it, and mirror does not copy "
        "it again",
        "set min.insync.replicas=2, on the topics or by the brokers' default",
        "a record is acknowledged by more than one replica",
    )
    yield _finding(
        "unclean elections",
        [name for name, safety in together.items() if safety.unclean],
        "have unclean.leader.election.enable=true: a replica that lags can become leader and cut off what was "
        "committed, and mirror does not copy it again",
        "set unclean.leader.election.enable=false, on the topics or by the brokers' default",
        "not allowed",
    )


def _finding(what: str, names: Collection[str], said: str, remedy: str, well: str) -> Finding:
    if not names:
        return Finding(what, "OK", well)
    return Finding(what, "WARNING", f"{some_of(sorted(names))}: {said}", remedy)


def verification(broker: Mapping[str, str], versions: Mapping[int, int]) -> Finding:
    """Do brokers refuse a record that comes after its transaction has ended (KIP-890, first part)?

    Given a broker's configuration, and the highest version of each request that all brokers have.
    """
    what, value = "late records", broker.get(VERIFICATION)
    cost = (
        "a request that was delayed can write after its transaction has ended: then readers are held for ever, or in "
        "the worst case see what was aborted, so a record twice"
    )
    if value == "true":
        return Finding(what, "OK", "brokers refuse what comes after its transaction has ended")
    if value is not None:
        return Finding(what, "WARNING", f"{VERIFICATION} is {value}: {cost}", f"set {VERIFICATION}=true on all brokers")
    if versions.get(ADD_PARTITIONS_TO_TXN, -1) < VERIFIES:
        said = f"the brokers do not verify transactions, as Kafka before 3.6: {cost}"
    else:
        said = f"the brokers do not tell whether they verify transactions ({VERIFICATION}): without it {cost}"
    return Finding(what, "WARNING", said, "use Kafka 3.6 or newer, and not 4.3.0 to 4.4.0")


def markers(levels: Sequence[int], brokers: int) -> Finding:
    """Do the brokers write every transaction's marker, whatever happens to leaders?

    Given the highest metadata.version of those of all `brokers` that tell it.
    """
    what = "transaction markers"
    skipping = [level for level in levels if level in SKIP_MARKERS]
    if skipping:
        said = (
            f"{len(skipping)} of {brokers} brokers are Kafka 4.3 or 4.4 ({METADATA_VERSION} up to {max(skipping)}; "
            "which patch release can't be told). 4.3.0 to 4.4.0 skip the markers of a committed transaction while a "
            "partition has no leader: then its records stay invisible, and its partition is neither read nor copied on "
            "until a person ends the transaction. Nothing is doubled"
        )
        return Finding(what, "WARNING", said, "use Kafka 4.2, or a release with KAFKA-20734 fixed")
    if len(levels) < brokers:
        silent = f"{brokers - len(levels)} of {brokers} brokers do not tell their release here"
        said = f"{silent}: Kafka 4.3.0 to 4.4.0 can't be told from others"
        return Finding(what, "WARNING", said, "see that the target runs none of them: they skip markers")
    return Finding(what, "OK", f"no broker is Kafka 4.3 or 4.4 ({METADATA_VERSION} up to {max(levels)})")


def transactions(brokers: Collection[Features], bootstrap: str) -> Finding:
    """Does the cluster work with transactions v2 (KIP-890, second part)? After an upgrade a person has to say so."""
    what = "transaction version"
    known = release_levels(brokers)
    if not known:
        remedy = f"look with kafka-features.sh --bootstrap-server {bootstrap} describe, and raise it to {NEEDED_LEVEL}"
        return Finding(what, "WARNING", f"the brokers do not tell {TRANSACTION_VERSION} here", remedy)
    able = [broker for broker in brokers if broker.supported.get(METADATA_VERSION, 0) >= HAVE_LEVELS]
    if not able:
        return Finding(what, "OK", f"brokers before Kafka 4.0 have no {TRANSACTION_VERSION}")
    level = min(broker.finalized.get(TRANSACTION_VERSION, 0) for broker in able)
    if level >= NEEDED_LEVEL:
        return Finding(what, "OK", f"{TRANSACTION_VERSION} is {level}")
    said = (
        f"{TRANSACTION_VERSION} is {level}, as after an upgrade: brokers end a transaction that timed out or was "
        "fenced without the second guard against requests that come late. mirror's own guard stays: it discards a "
        "producer after any disturbance"
    )
    command = f"kafka-features.sh --bootstrap-server {bootstrap} upgrade --feature {TRANSACTION_VERSION}={NEEDED_LEVEL}"
    return Finding(what, "WARNING", said, command)


def release_levels(brokers: Collection[Features]) -> list[int]:
    """The highest metadata.version of each broker that tells it: it grows with the release."""
    return [broker.supported[METADATA_VERSION] for broker in brokers if METADATA_VERSION in broker.supported]
