"""`mirror verify`: it finds what was planted, and nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from mirror.commands.verify.digests import Digester
from mirror.commands.verify.selection import select
from mirror.commands.verify.verify import InProcess, verify
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from tests.checker.history import Record
from tests.harness import damage, oracle, syncs, topics
from tests.harness.command import answer, mirror
from tests.harness.load import Load, Made, mixed, producer
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.together import together
from tests.harness.waiting import until

pytestmark = pytest.mark.slow

RECORDS = 5_000
START = 1_700_000_000_000  # ms
KINDS = ("lost", "duplicated", "reordered", "altered", "extra")

Change = Callable[[list[Record]], list[Record]]


@cache
def records() -> tuple[Record, ...]:
    """Each is another one, and the position on its topic is its number."""
    made = enumerate(map(mixed, range(RECORDS)))
    return tuple(Record(n, key, value, tuple(headers), START + n // 10) for n, (key, value, headers) in made)


def write(bootstrap: str, topic: str, content: list[Record]) -> None:
    topics.create(bootstrap, topic, retention_ms=-1)  # the records are years old
    write_to(bootstrap, topic, content)


def write_to(bootstrap: str, topic: str, content: list[Record], partition: int = 0) -> None:
    to = producer(bootstrap)
    for record in content:
        to.produce(topic, record.value, record.key, partition, timestamp=record.timestamp, headers=list(record.headers))
    assert to.flush(60) == 0


def plant(pair: Pair, name: str, change: Change, position: int = RECORDS) -> None:
    """A topic that looks as if it was copied, but for a change."""
    source = list(records())
    write(pair.source, pair.prefix + name, source)
    write(pair.target, pair.remote(pair.prefix + name), change(source))
    topics.commit(pair.target, pair.group, pair.remote(pair.prefix + name), {0: position})


def faults() -> dict[str, tuple[Change, dict[str, int], tuple[str, int | None, int | None] | None]]:
    """What is done to the copy in each case, the counts that must be found, and one of the differences."""
    odd = records()[10]._replace(key=b"nobody", value=b"knows", timestamp=1)
    return {
        "equal": (lambda r: r, {}, None),
        "lost": (lambda r: r[:2000] + r[2001:], {"lost": 1}, ("lost", 2000, None)),
        "lost-first": (lambda r: r[1:], {"lost": 1}, ("lost", 0, None)),
        "lost-last": (lambda r: r[:-2], {"lost": 2}, ("lost", RECORDS - 1, None)),
        "lost-all": (lambda r: [], {"lost": RECORDS}, None),
        "double": (lambda r: r[:31] + r[30:], {"duplicated": 1}, ("duplicated", 30, 31)),
        "double-late": (lambda r: [*r, r[7]], {"duplicated": 1}, ("duplicated", 7, RECORDS)),
        "reordered": (
            lambda r: [*r[:99], r[100], r[99], *r[101:4000], r[4500], *r[4000:4500], *r[4501:]],
            {"reordered": 2},
            ("reordered", 4500, 4000),
        ),
        "altered": (
            lambda r: [
                *r[:10],
                r[10]._replace(value=b"other"),
                *r[11:1000],
                r[1000]._replace(headers=r[1000].headers[::-1]),
                *r[1001:3000],
                r[3000]._replace(timestamp=5),
                *r[3001:],
            ],
            {"altered": 3},
            ("altered", 3000, 3000),
        ),
        "extra": (lambda r: [*r[:3000], odd, *r[3000:]], {"extra": 1}, ("extra", None, 3000)),
    }


def plant_what_can_not_be_compared(pair: Pair, source: LocalCluster) -> None:
    """A topic with a damaged batch, one whose remote topic is compacted, and one with remote partitions of its own."""
    few = [Record(n, b"key", b"damaged-%d" % n, (), START) for n in range(9)]
    damaged = f"{pair.prefix}damaged"
    write(pair.source, damaged, few)
    write(pair.target, pair.remote(damaged), few)
    topics.commit(pair.target, pair.group, pair.remote(damaged), {0: len(few)})
    damage.flip(source, damaged, 0, few[0].value or b"")

    write(pair.source, f"{pair.prefix}compacted", list(records()))
    topics.create(pair.target, pair.remote(f"{pair.prefix}compacted"), cleanup_policy="compact")
    topics.commit(pair.target, pair.group, pair.remote(f"{pair.prefix}compacted"), {0: RECORDS})

    plant(pair, "surplus", lambda r: r)
    topics.grow(pair.target, pair.remote(f"{pair.prefix}surplus"), 3)
    write_to(pair.target, pair.remote(f"{pair.prefix}surplus"), few, 2)


def test_what_was_planted(pair: Pair, source_cluster: LocalCluster, tmp_path: Path) -> None:
    together(
        partial(what_is_planted_is_found, pair.other("planted"), source_cluster, tmp_path),
        partial(what_is_removed_meanwhile_is_left_out, pair.other("shortened"), tmp_path),
        partial(what_only_one_log_has_is_never_called_equal, pair.other("bounded"), tmp_path),
    )


def what_is_planted_is_found(pair: Pair, source: LocalCluster, tmp_path: Path) -> None:
    file = pair.service(tmp_path).file
    plant_what_can_not_be_compared(pair, source)
    for name, (change, _, _) in faults().items():
        plant(pair, name, change)
    # What is on its way, and what retention has removed on one side or on both, is no difference.
    plant(pair, "behind", lambda r: r[:4000], position=4000)
    for name in ("retained-source", "retained-target", "retained-both"):
        plant(pair, name, lambda r: r)
    topics.remove_records(pair.source, f"{pair.prefix}retained-source", 2500)
    topics.remove_records(pair.target, pair.remote(f"{pair.prefix}retained-target"), 1500)
    topics.remove_records(pair.source, f"{pair.prefix}retained-both", 1000)
    topics.remove_records(pair.target, pair.remote(f"{pair.prefix}retained-both"), 3000)
    plant(pair, "retained-and-lost", lambda r: r[:4000] + r[4001:])
    topics.remove_records(pair.source, f"{pair.prefix}retained-and-lost", 2500)

    # Nothing was ever copied of these two, but the second has nothing to copy.
    write(pair.source, new := f"{pair.prefix}new", list(records()))
    pair.topic("empty")

    (flow,) = answer("verify", "-c", file, code=1)["flows"]
    assert flow["uncopied"] == [{"topic": new, "partition": 0}]
    found = {each["topic"].removeprefix(pair.prefix): each for each in flow["partitions"]}
    assert f"{pair.prefix}damaged-0 on {pair.alias} can't be read: " in found["damaged"]["reason"]
    assert [name for name, each in found.items() if each["reason"]] == ["damaged"]
    assert flow["skipped"] == [f"{pair.prefix}compacted"] and "compacted" not in found
    assert flow["surplus"] == [{"topic": pair.remote(f"{pair.prefix}surplus"), "partition": 2}]
    assert found["surplus"]["equal"] and found["surplus"]["compared"] == RECORDS
    for name, (_, counts, difference) in faults().items():
        assert counted(found[name]) == counts, name
        assert found[name]["compared"] == RECORDS - sum(
            n for k, n in counts.items() if k in ("lost", "reordered", "altered")
        )
        if difference:
            assert difference in [(d["kind"], d["upstream"], d["downstream"]) for d in found[name]["differences"]]
    assert counted(found["behind"]) == {} and found["behind"]["compared"] == 4000
    gone = {name: (each["gone_source"], each["gone_target"]) for name, each in found.items() if "retained" in name}
    assert gone == {
        "retained-source": (2500, 0),
        "retained-target": (0, 1500),
        "retained-both": (0, 2000),
        "retained-and-lost": (2500, 0),
    }
    assert {name: counted(found[name]) for name in gone if counted(found[name])} == {"retained-and-lost": {"lost": 1}}

    ended = mirror("verify", "-c", file, "--topic", f"{pair.prefix}double")
    assert ended.returncode == 1
    assert f"{pair.prefix}double-0 offset 30" in ended.stdout and "duplicated 1" in ended.stdout, ended.stdout
    assert "Traceback" not in ended.stderr
    ended = mirror("verify", "-c", file, "--topic", new)
    assert ended.returncode == 1 and f"{new}-0 has records, but none was ever copied" in ended.stdout
    unknown = mirror("verify", "-c", file, "--topic", "nobody-mirrors-this")
    assert unknown.returncode == 2 and "does not mirror" in unknown.stderr


def what_is_removed_meanwhile_is_left_out(pair: Pair, tmp_path: Path) -> None:
    """Retention removes records after the ranges were selected, and before they are read."""
    (flow,) = load(pair.service(tmp_path).file).flows
    for librdkafka in (False, True):
        topic = f"{pair.prefix}shortened-{librdkafka}"
        plant(pair, topic.removeprefix(pair.prefix), lambda r: r[:4000] + r[4001:])
        selection = select(flow, [topic])
        topics.remove_records(pair.source, topic, 2500)
        topics.remove_records(pair.target, pair.remote(topic), 100)
        digester = Digester({cluster.alias: cluster for cluster in (flow.source, flow.target)}, librdkafka)
        (result,) = verify(selection.compared, digester, InProcess(), lambda *_: None)
        assert not result.reason, result.reason
        assert (result.counts.lost, result.compared, result.gone_source) == (1, 2_499, 2_400)


def what_only_one_log_has_is_never_called_equal(pair: Pair, tmp_path: Path) -> None:
    """Both logs begin after offset 0. What differs after their beginnings came out as equal once."""
    file = pair.service(tmp_path).file
    made: dict[str, tuple[Change, int, int]] = {
        "right": (lambda r: r, 1_000, 3_000),
        "altered": (lambda r: [*(e._replace(value=b"x%d" % e.offset) for e in r[:-10]), *r[-10:]], 1_000, 1_000),
        "twice": (lambda r: [*r, *r], 1_000, 10),
        "foreign": (lambda r: [*(e._replace(key=b"nobody") for e in r[:500]), *r], 20, 10),
        "gone": (lambda r: r, RECORDS, 3_000),
    }
    for name, (change, here, there) in made.items():
        plant(pair, name, change)
        topics.remove_records(pair.source, pair.prefix + name, here)
        topics.remove_records(pair.target, pair.remote(pair.prefix + name), there)
    (flow,) = answer("verify", "-c", file, code=1)["flows"]
    found = {each["topic"].removeprefix(pair.prefix): each for each in flow["partitions"]}
    assert {name: each["equal"] for name, each in found.items()} == {
        "right": True,
        "altered": False,
        "twice": False,
        "foreign": False,
        "gone": True,
    }
    assert (counted(found["altered"]), found["altered"]["compared"]) == ({"altered": 3_990}, 10)
    assert found["twice"]["duplicated"] > 0 and found["twice"]["compared"] == 4_000
    # The source can have had 20 records, of 510 that stand there.
    assert counted(found["foreign"]) == {"extra": 490}
    where = {"cluster": pair.alias, "topic": f"{pair.prefix}right", "partition": 0}
    assert found["right"]["not_comparable"] == [
        {**where, "first_offset": 1_000, "last_offset": 2_999, "records": 2_000}
    ]

    command = ("verify", "-c", file, "--topic", f"{pair.prefix}right")
    ended = mirror(*command)
    assert ended.returncode == 0 and "equal in the range that both logs have; 2,000 records" in ended.stdout
    assert f"{pair.prefix}right-0 offsets 1000 to 2999, 2,000 records: backup does not have them" in ended.stdout
    assert mirror(*command, "--strict").returncode == 1
    # Nothing at all can be compared.
    ended = mirror("verify", "-c", file, "--topic", f"{pair.prefix}gone")
    assert ended.returncode == 1 and "not equal" in ended.stdout


def test_offset_syncs_tell_where_the_logs_begin(shared: Pair, shared_service: Service) -> None:
    """A record that somebody wrote where the source's log begins now is found, for the sync before it bounds it."""
    topic = shared.topic("bounded")
    shared.produce(topic, *(Made(b"%d" % n, b"first") for n in range(100)))
    shared.await_same(topic)
    remote = shared.remote(topic)

    def settled() -> bool:  # the last record has a sync of its own
        synced = syncs.read(shared.target, shared.alias)[topic, 0]
        return bool(synced) and synced[-1].upstream == 99

    until("a sync of the last record", settled)
    write_to(shared.target, remote, [Record(0, b"nobody", b"knows", (), START)])
    shared.produce(topic, *(Made(b"%d" % n, b"second") for n in range(100)))
    until("copied", lambda: oracle.count(shared.copied(topic)) == 201)
    topics.remove_records(shared.source, topic, 100)
    topics.remove_records(shared.target, remote, 10)
    (flow,) = answer("verify", "-c", shared_service.file, "--topic", topic, code=1)["flows"]
    (found,) = flow["partitions"]
    assert (counted(found), found["compared"], found["gone_source"]) == ({"extra": 1}, 100, 90)


def counted(found: dict[str, Any]) -> dict[str, int]:
    return {kind: found[kind] for kind in KINDS if found[kind]}


@pytest.mark.both_paths
def test_a_running_copy_is_equal_at_any_time(shared: Pair, shared_service: Service) -> None:
    topic = shared.topic("running", 3)
    with Load(shared.source, {topic: 3}, rate=300, transaction=50, abort_every=4, make=mixed) as load:
        copied = "mirror_source_records_total"
        shared_service.wait_for("some copied", lambda: shared_service.metric(copied, topic=topic) > 300)
        during = answer("verify", "-c", shared_service.file, "--topic", topic)
        load.stop()
    assert during["equal"] and during["flows"][0]["compared"] > 0
    shared.await_same(topic)
    shared.assert_settled(topic)
    after = answer("verify", "-c", shared_service.file, "--topic", topic)
    assert after["equal"]
    assert after["flows"][0]["compared"] == oracle.count(oracle.read(shared.source, topic)) == load.counts.total
