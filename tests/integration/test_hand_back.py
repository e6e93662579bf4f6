"""The way back: mirror copies, is killed or stops, and a real MirrorMaker 2 copies the next record first.

As in test_adopt, one MirrorMaker has four flows: with and without exactly-once, each with both policies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from mirror.commands.adopt import stopping
from mirror.commands.hand_back import ending
from mirror.commands.hand_back.command import Options, hand_back
from mirror.commands.hand_back.selection import HandBackResult
from mirror.commands.plan.dry_run import dry_run
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.errors import MirrorError
from mirror.groups.checkpoints import Checkpoint
from tests.harness import oracle, topics
from tests.harness.command import answer
from tests.harness.load import Load, mixed
from tests.harness.moving import Moving, World
from tests.harness.pair import Pair
from tests.harness.together import together
from tests.harness.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]

GROUP = "checkpoint-back"
RECORDS = 200  # of each partition and each part of the test


def test_mirrormaker_goes_on_where_mirror_has_stopped_and_mirror_after_it(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes twice, and nothing is missing.

    One test, because both take long to start. mirror is killed under load, and `mirror hand-back` gives its positions
    to MirrorMaker, but for one flow; `mirror adopt` takes them back; then mirror stops in order, and its
    `mirrormaker_offsets` are all that MirrorMaker gets.
    """
    option = {"mirrormaker_offsets": {"enabled": True}, "exactly_once": True}
    world = World("back", source_cluster.bootstrap, target_cluster.bootstrap, tmp_path, option)
    watched = world.all[1] = world.all[1].changed(groups={"interval": "1s", "include": [GROUP]})
    left = world.flow("left", "alo", identity=False)
    loose = world.flow("loose", "alo", identity=False).changed(exactly_once=False)
    world.all += [left, loose]
    mirror_is_killed(world, monkeypatch)
    monkeypatch.setattr(ending, "NO_SERVICE", 3.0)  # nothing of mirror is left: its tasks end with it
    world.all = world.all[:-2]
    before, at = left.copy(), written(left)
    loosely = loose.copy()
    positions = {each.partition.partition: each.position or 0 for each in loose.hand_back().results}
    after = loose.next_offsets()
    assert all(0 < offset <= after[number] for number, offset in positions.items()), (positions, after)
    each_of(world, hand_back_after_the_kill)
    assert "handed back to MirrorMaker" in dry_run(load(world.all[0].file).flows[0]).blocked[0].blocked
    with world.mirror_maker(*world.all, left, loose, committed=True, checkpoints=watched) as first:
        goes_on(world)
        assert checkpoint_says(watched, -1) <= 0
        nothing_is_missing_after(left, before, at)
        nothing_is_missing_after(loose, loosely, positions)
        mirrormaker_is_noticed(world.all[0], monkeypatch)
        mirrormaker_is_noticed_by_its_records(world)
        first.stop()
    adopt_again(world)
    world.all[2] = world.all[2].changed(exactly_once=False)
    with world.service() as service:
        goes_on(world)
        assert checkpoint_says(watched, -1) == 0
        with load_of(world, first=10**7, transaction=100, abort_every=4):
            for each in world.all:
                each.await_copied(oracle.count(each.copy()) + RECORDS)
            assert service.terminate() == 0, service.tail()
        said = service.find("positions written for MirrorMaker", partitions=2)
        assert sorted(event["flow"] for event in said) == sorted(each.pair.flow for each in world.all)
    with world.mirror_maker(*world.all, committed=True) as second:
        goes_on(world)
        second.stop()
    adopt_again(world)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_service_that_is_started_meanwhile_keeps_its_position(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exactly_once: bool
) -> None:
    """It copies on before its position is marked as handed back. MirrorMaker would copy those records a second time.

    Without exactly-once nobody can fence it, and the command fails as a whole.
    """
    topic, own = pair.topic("meanwhile"), {"exactly_once": exactly_once}
    pair.produce(topic, *map(mixed, range(100)))
    with pair.service(tmp_path, own) as first:
        pair.await_same(topic)
        assert first.terminate() == 0
    found: list[HandBackResult] = []
    give_up = ending.give_up

    def meanwhile(*args: Any) -> list[HandBackResult]:
        with pair.service(tmp_path, own) as second:
            pair.produce(topic, *map(mixed, range(100, 200)))
            pair.await_same(topic)
            found.extend(give_up(*args))
            pair.produce(topic, *map(mixed, range(200, 300)))
            pair.await_same(topic)
            assert second.terminate() == 0
        return found

    monkeypatch.setattr(ending, "give_up", meanwhile)
    (flow,) = load(first.file).flows
    failure: AbstractContextManager[object] = nullcontext()
    if not exactly_once:
        failure = pytest.raises(MirrorError, match="a service was started meanwhile")
    with failure:
        hand_back(flow, Options(None, None, 0.5, overwrite=False, dry_run=False), StringIO())
    assert [(each.outcome, each.reason) for each in found] == [("refused", ending.MOVED)]
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == 300
    monkeypatch.setattr(ending, "give_up", give_up)
    again = hand_back(flow, Options(None, None, 0.5, overwrite=False, dry_run=False), StringIO())
    assert [(each.outcome, each.recorded, each.position) for each in again.results] == [("handed back", 100, 300)]


def each_of(world: World, what: Callable[[Moving], None]) -> None:
    """Do something with all flows at once."""

    def bound(flow: Moving) -> Callable[[], None]:
        return lambda: what(flow)

    together(*map(bound, world.all))


def mirror_is_killed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies records without markers between them, so that each offset counts, and is killed in the middle."""
    with load_of(world, first=0), world.service() as service:
        for each in world.all:
            each.await_copied(RECORDS)
        assert checkpoint_says(world.all[1], 20) == 0
        with monkeypatch.context() as patience, pytest.raises(MirrorError, match="stop mirror"):
            patience.setattr(ending, "LEFTOVERS", 0.0)
            world.all[0].hand_back()
        for each in world.all:
            service.wait_for("positions for MirrorMaker", lambda each=each: len(written(each)) == 2)  # type: ignore[misc]
        service.kill()
    for each in world.all:  # nobody hands back yet: MirrorMaker would copy some records again, and leave none out
        after = each.next_offsets()
        assert all(0 < offset <= after[number] for number, offset in written(each).items()), (written(each), after)


def checkpoint_says(flow: Moving, index: int) -> int:
    """A group commits the offset of this record of partition 0, and whoever copies writes a checkpoint of it.

    Returns how many records after that one the group would go on. Below 0, it reads as many again.
    """
    record, name = flow.source()[0][index], f"{flow.pair.alias}.checkpoints.internal"
    topics.commit(flow.pair.source, GROUP, flow.topic, {0: record.offset})

    def found() -> tuple[int] | None:
        stands = [
            Checkpoint.decode(each.key or b"", each.value or b"") for each in oracle.read(flow.pair.target, name)[0]
        ]
        of_group = [each for each in stands if (each.group, each.remote, each.partition) == (GROUP, flow.remote(), 0)]
        return (of_group[-1].downstream,) if of_group and of_group[-1].upstream == record.offset else None

    until(f"{name} exists", lambda: topics.partitions(flow.pair.target, name))
    (downstream,) = until(f"a checkpoint of {GROUP} at {record.offset}", found)
    (first, *_) = [each.content for each in flow.copy()[0] if each.offset >= downstream]
    contents = [each.content for each in flow.source()[0]]
    return contents.index(first) - contents.index(record.content)


def written(flow: Moving) -> dict[int, int]:
    """Where a MirrorMaker would go on, by partition, as the bytes in Connect's offsets topic say."""
    topic, found = f"mm2-offsets.{flow.pair.alias}.internal", dict[int, int]()
    if topics.partitions(flow.pair.target, topic):
        for record in (record for some in oracle.read(flow.pair.target, topic).values() for record in some):
            _, place = json.loads(record.key or b"[0, 0]")
            if place and place["topic"] == flow.topic and record.value:
                found[place["partition"]] = json.loads(record.value)["offset"] + 1
    return found


def load_of(world: World, first: int, transaction: int = 0, abort_every: int = 0) -> Load:
    """Numbered records to all partitions of all flows."""
    topics = {each.topic: 2 for each in world.all}
    how = {"transaction": transaction, "abort_every": abort_every}
    return Load(world.all[0].pair.source, topics, make=mixed, rate=200, first=first, **how)


def hand_back_after_the_kill(flow: Moving) -> None:
    """What a dry run says may be older; then the position is that after the last record that was copied."""
    if flow.identity:
        found = answer("hand-back", "-c", flow.file, "--dry-run")
        assert {each["outcome"] for each in found["partitions"]} == {"would be handed back"}, found
        assert found["well"] and found["dry_run"]
        assert any("IdentityReplicationPolicy" in line for line in found["needed"])
    done = flow.hand_back()
    assert [each.outcome for each in done.results] == ["handed back"] * 2, done
    for each in done.results:
        (last, *_) = reversed(flow.copy()[each.partition.partition])
        here = flow.source()[each.partition.partition]
        (at,) = [record.offset for record in here if record.content == last.content]
        between = [record.offset for record in here if at < record.offset < (each.position or 0)]
        assert at < (each.position or 0) and not between
    again = flow.hand_back()
    assert [each.outcome for each in again.results] == ["left alone"] * 2, again


def goes_on(world: World) -> None:
    """Whoever runs copies the rest and what comes meanwhile, and no record a second time."""
    first = 10**6 + 2 * oracle.count(world.all[0].source("read_uncommitted"))
    each_of(world, lambda flow: flow.produce(first, RECORDS))
    for each in world.all:
        each.await_copied(oracle.count(each.source()))
        oracle.compare(each.source(), each.copy())


def nothing_is_missing_after(flow: Moving, before: oracle.Records, at: Mapping[int, int]) -> None:
    """MirrorMaker goes on at these positions, which may be before the last records that mirror has copied."""
    wanted = {number: [each.content for each in some] for number, some in before.items()}
    for number, some in flow.source().items():
        wanted[number] += [each.content for each in some if each.offset >= at[number]]
    flow.await_copied(sum(map(len, wanted.values())))
    assert {number: [each.content for each in some] for number, some in flow.copy().items()} == wanted


def mirrormaker_is_noticed(flow: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is handed back while it runs."""
    with monkeypatch.context() as patience, pytest.raises(MirrorError, match="MirrorMaker still runs"):
        patience.setattr(stopping, "MEMBERS_MORE", 0.0)
        flow.hand_back(quiet=0.5)


def mirrormaker_is_noticed_by_its_records(world: World) -> None:
    """Its workers' group has another name here, so the group has no members, and fencing that name ends no task."""
    with load_of(world, first=2 * 10**6):
        world.all[0].await_copied(oracle.count(world.all[0].copy()) + RECORDS)
        found = world.all[0].hand_back(group="not-its-name", tasks=2, quiet=10.0)
    assert [each.outcome for each in found.results] == ["refused"] * 2, found
    assert all("records still come to the copy" in each.reason for each in found.results), found


def adopt_again(world: World) -> None:
    """Take over what was handed back, and later what MirrorMaker has copied after what mirror had written for it.

    One after another: within a process, all that compares records has the same connections.
    """
    for flow in world.all:
        said = flow.adopt()
        assert [each.outcome for each in said.results] == ["adopted"] * 2, said
        assert {number: each.position for number, each in flow.ours(said).items()} == flow.next_offsets()
