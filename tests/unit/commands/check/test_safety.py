"""What is made of a target's own words: of releases that can't be run here, too, and of answers made to hurt."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror.commands.check import safety
from mirror.commands.check.findings import Finding
from mirror.commands.check.safety import NEW, VERIFICATION, Safety
from mirror.wire.features import Features

GOOD = Safety(replicas=3, in_sync=2, unclean=False)
KAFKA_3_6, KAFKA_3_7 = {0: 9}, {0: 10}  # the highest version of Produce


def broker(metadata: int, transaction: int | None = 2) -> Features:
    """One that has this metadata.version at most, in a cluster that works at this transaction.version."""
    return Features({"metadata.version": metadata}, {} if transaction is None else {"transaction.version": transaction})


def replicated(
    internal: Mapping[str, Safety], remote: Mapping[str, Safety], versions: Mapping[int, int] = KAFKA_3_7
) -> dict[str, Finding]:
    return {finding.what: finding for finding in safety.replication(internal, remote, versions)}


def test_a_target_that_keeps_everything() -> None:
    found = replicated({"__consumer_offsets": GOOD}, {"a.t": GOOD, NEW: GOOD})
    assert {each.outcome for each in found.values()} == {"OK"} and not any(each.remedy for each in found.values())


@pytest.mark.parametrize(
    ("what", "bad"),
    [
        ("replicas of remote topics", Safety(replicas=1, in_sync=1, unclean=False)),
        ("in-sync replicas", Safety(replicas=3, in_sync=1, unclean=False)),
        ("unclean elections", Safety(replicas=3, in_sync=2, unclean=True)),
    ],
)
def test_one_line_for_all_topics_with_the_same_fault(what: str, bad: Safety) -> None:
    remote = {f"a.t{number:02}": bad for number in range(12)}
    found = replicated({"__consumer_offsets": GOOD}, {**remote, "a.good": GOOD})
    assert {name for name, finding in found.items() if finding.outcome == "WARNING"} == {what}
    assert found[what].said.startswith("a.t00, a.t01, ") and ", and 2 more: " in found[what].said
    assert found[what].remedy and "a.good" not in found[what].said


def test_internal_topics_are_named_apart() -> None:
    found = replicated({"__consumer_offsets": Safety(1, 1, False), "own": GOOD}, {"a.t": GOOD})
    assert found["replicas of internal topics"].said.startswith("__consumer_offsets: have 1 replica")
    assert found["in-sync replicas"].outcome == "OK", "with one replica there is nothing to be in sync with"


@pytest.mark.parametrize("versions", [KAFKA_3_6, {}], ids=["Kafka 3.6", "not known"])
@pytest.mark.parametrize(("replicas", "in_sync"), [(1, 2), (2, 3)])
def test_topics_to_which_nothing_can_be_written(replicas: int, in_sync: int, versions: Mapping[int, int]) -> None:
    lacking = Safety(replicas, in_sync, unclean=False)
    found = replicated({"own": GOOD}, {"a.t": lacking, "a.other": GOOD}, versions)["in-sync replicas"]
    assert found.outcome == "FAILED" and found.said.startswith("a.t: have fewer replicas than min.insync.replicas")
    assert "more replicas" in found.remedy and "lower min.insync.replicas" in found.remedy
    fits = Safety(replicas, replicas, unclean=False)
    assert replicated({"own": GOOD}, {"a.t": fits}, versions)["in-sync replicas"].outcome == "OK"


def test_newer_brokers_need_no_more_replicas_in_sync_than_there_are() -> None:
    """A cluster of one broker has transaction.state.log.min.isr=2, Kafka's default, and works."""
    lone = {"__transaction_state": Safety(replicas=1, in_sync=2, unclean=False)}
    assert replicated(lone, {}, KAFKA_3_7)["in-sync replicas"].outcome == "OK"
    assert replicated(lone, {}, KAFKA_3_6)["in-sync replicas"].outcome == "FAILED"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_own_topics_from_which_old_records_are_deleted_are_named(policy: str) -> None:
    found = safety.compaction({"mirror-control.a.internal": policy, "mirror-status.a.internal": "compact"})
    assert found.outcome == "WARNING" and found.said.startswith("mirror-control.a.internal: have another")
    assert "cleanup.policy=compact" in found.remedy
    assert safety.compaction({"mirror-control.a.internal": "compact"}).outcome == "OK"


def test_what_is_not_told_is_no_fault() -> None:
    assert Safety.of(None, {}) == Safety(None, None, None)
    assert {each.outcome for each in safety.replication({"o": Safety(None, None, None)}, {}, {})} == {"OK"}
    assert Safety.of(2, {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}) == Safety(2, 2, True)


@pytest.mark.parametrize(
    ("config", "versions", "outcome", "word"),
    [
        ({VERIFICATION: "true"}, {24: 5}, "OK", "refuse"),
        ({VERIFICATION: "false"}, {24: 5}, "WARNING", f"{VERIFICATION} is false"),
        ({}, {24: 3}, "WARNING", "before 3.6"),
        ({}, {24: 5}, "WARNING", "do not tell"),
    ],
)
def test_late_records(config: Mapping[str, str], versions: Mapping[int, int], outcome: str, word: str) -> None:
    found = safety.verification(config, versions)
    assert found.outcome == outcome and word in found.said
    assert outcome == "OK" or ("record twice" in found.said and found.remedy)


@pytest.mark.parametrize(
    ("levels", "outcome", "word"),
    [
        ([21], "OK", "up to 21"),  # 3.9
        ([29, 29], "OK", "up to 29"),  # 4.2
        ([30], "WARNING", "1 of 1 brokers"),  # 4.3
        ([29, 33, 29], "WARNING", "1 of 3 brokers"),  # one of three is 4.4
        ([34], "OK", "up to 34"),  # 4.5
    ],
)
def test_releases_that_skip_markers(levels: list[int], outcome: str, word: str) -> None:
    """Kafka 4.3 and 4.4 can't be run here: judged by the highest metadata.version that their source has."""
    found = safety.markers(levels, len(levels))
    assert found.outcome == outcome and word in found.said
    assert ("4.3.0 to 4.4.0 skip" in found.said) is (outcome == "WARNING") is bool(found.remedy)


def test_brokers_that_tell_no_release() -> None:
    assert safety.release_levels([Features({}, {}), broker(29)]) == [29]
    assert "1 of 2 brokers do not tell" in safety.markers([29], 2).said
    assert "2 of 2 brokers do not tell" in safety.markers([], 2).said
    assert safety.markers([30], 2).said.startswith("1 of 2 brokers are Kafka 4.3"), "what is known comes first"
    assert safety.transactions([Features({}, {})], "b:1").remedy.startswith("look with kafka-features.sh")


@pytest.mark.parametrize(
    ("metadata", "level", "outcome"),
    [(29, 2, "OK"), (29, 1, "WARNING"), (29, 0, "WARNING"), (29, None, "WARNING"), (21, None, "OK"), (25, 3, "OK")],
)
def test_the_transaction_version_after_an_upgrade(metadata: int, level: int | None, outcome: str) -> None:
    found = safety.transactions([broker(metadata, level)], "b:1")
    assert found.outcome == outcome
    command = "kafka-features.sh --bootstrap-server b:1 upgrade --feature transaction.version=2"
    assert found.remedy == (command if outcome == "WARNING" else "")
