"""What a source can hold, lose or change."""

from __future__ import annotations

import random
import re
import time

from tests.chaos.arena import Arena
from tests.chaos.matrix import row
from tests.chaos.own_recorders import CompactedRecorder, TransformRecorder
from tests.chaos.processes import worker
from tests.chaos.recorder import Recorder
from tests.checker.history import Record
from tests.harness import oracle, topics
from tests.harness.command import mirror
from tests.harness.load import Made
from tests.harness.service import BLOCKED, DECIDED, PASSED_OVER, REFUSED
from tests.harness.waiting import until

FAILS = b"fails"  # the key for which the transform fails


@row("10 an open transaction on the source holds records back, and is aborted")
def open_transaction(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    to = recorder.senders[1].transactional("-open")
    to.begin_transaction()
    to.produce(recorder.topic, b"never", partition=rng.randrange(len(recorder.senders)))
    assert to.flush(30) == 0
    time.sleep(rng.uniform(0.5, 3))
    to.abort_transaction(30)


@row("11 a compacted topic: gaps and tombstones", everywhere=False, recorder=CompactedRecorder)
def compaction(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    def has_gaps() -> bool:
        """True if compaction has left less than half of the records after the position."""
        after = [r for r in oracle.read(arena.pair.source, recorder.topic)[0] if r.offset >= position]
        return len(after) > 100 and len(after) < (after[-1].offset - position) / 2

    position = until("positions", recorder.positions)[0]  # not later: a transaction that stands still hides it
    with arena.service.workers_stopped():
        until("gaps on the source", has_gaps)
    recorder.heals()
    if rng.random() < 0.5:
        worker(arena, rng, recorder)
    recorder.await_progress()


@row("12 records are deleted before they are copied", everywhere=False)
def deleted_records(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    since = len(arena.service.events)
    with arena.service.workers_stopped():
        end = recorder.source_ends()[0]
        until("more on the source", lambda: recorder.source_ends()[0] > end + 100)
        recorder.remember()
        kept = end + rng.randint(50, 100)
        topics.remove_records(arena.pair.source, recorder.topic, kept)
    recorder.heals()
    said = arena.service.wait_for_event(PASSED_OVER, since=since, topic=recorder.topic)
    first, last = re.findall(r"offsets (\d+) to (\d+) were deleted", said["reason"])[0]
    assert int(last) + 1 == kept, said
    recorder.passed_over[0].update(range(int(first), int(last) + 1))
    recorder.losses[0] += 1


@row("13 the topic is deleted and created again, shorter or longer than before", everywhere=False)
def recreated(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    since = len(arena.service.events)
    with arena.service.workers_stopped():
        old = recorder.recreate(longer=rng.random() < 0.5)
    recorder.heals()
    for number, offsets in old.items():
        said = arena.service.wait_for_event(PASSED_OVER, since=since, topic=recorder.topic, partition=number)
        (last,) = re.findall(r"what followed offset (-?\d+) of the old one is lost", said["reason"])
        recorder.passed_over[number].update(offsets[int(last) + 1 :])
        recorder.losses[number] += 1


@row("14 partitions are added", everywhere=False)
def growth(_: Arena, __: random.Random, recorder: Recorder) -> None:
    recorder.grow(len(recorder.senders) + 1)


@row("15 a record too large for the target", everywhere=False)
def oversize(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    topics.configure(arena.pair.target, recorder.remote, max_message_bytes=50_000)
    since = len(arena.service.events)
    value = rng.randbytes(60_000)
    while recorder.drops(Record(0, b"large", value, (), 0)):
        value = rng.randbytes(60_000)
    arena.pair.produce(recorder.topic, Made(b"large", value))
    _await_refused(arena, recorder, since)


@row(
    "15 a transform that drops a third fails for a record, and perhaps a worker is killed",
    everywhere=False,
    recorder=TransformRecorder,
)
def failed_transform(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    since = len(arena.service.events)
    arena.pair.produce(recorder.topic, Made(FAILS, rng.randbytes(20)))
    if rng.random() < 0.5:
        worker(arena, rng, recorder)
    _await_refused(arena, recorder, since)


def _await_refused(arena: Arena, recorder: Recorder, since: int) -> None:
    """Wait until mirror tells of a record of partition 0 that it has passed over."""
    recorder.heals()
    said = arena.service.wait_for_event(REFUSED, since=since, topic=recorder.topic)
    (offset,) = re.findall(r"at offset (\d+)", said["reason"])
    recorder.passed_over[0].add(int(offset))
    recorder.losses[0] += 1


@row("24 a remote topic is deleted, and perhaps a worker killed", everywhere=False, together=1)
def remote_topic(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    """Delete the remote topic. By policy it is made again, and must have all records from the position on."""
    # A broker deletes the positions with the topic. Without a report, too, a partition is new, and nothing is decided.
    arena.service.wait_for("reports of all partitions", lambda: _all_reported(arena, recorder))
    since = len(arena.service.events)
    with recorder.watch.in_doubt():
        topics.delete(arena.pair.target, recorder.remote)
        if rng.random() < 0.5:
            worker(arena, rng, recorder)
        for number in range(len(recorder.senders)):
            arena.service.wait_for_event(DECIDED, since=since, topic=recorder.topic, partition=number)
        recorder.remade()
    recorder.heals()


def _all_reported(arena: Arena, recorder: Recorder) -> bool:
    reported = arena.service.positions(recorder.topic)
    return len(reported) == len(recorder.senders) and all(reported.values())  # 0 is where it begins, not a position


@row("25 the positions vanish, or somebody else commits others", everywhere=False)
def positions(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    """Somebody decides that copying goes on after what was copied: nothing comes twice."""
    since, vanish = len(arena.service.events), rng.random() < 0.5
    ends: dict[int, int] = {}

    def copied_on() -> bool:
        positions = recorder.positions()
        return positions is not None and all(positions[number] > end for number, end in ends.items())

    def is_noticed() -> bool:
        return any(arena.service.find(said, since, topic=recorder.topic) for said in (BLOCKED, DECIDED))

    def is_hit() -> bool:
        """Inject the fault. False if each partition had a transaction open that has written its position again."""
        _take_positions(arena, rng, recorder, vanish)
        arena.target_proxy.disconnect()  # or whoever has a producer open commits its position again
        recorder.heals()
        ends.update(recorder.source_ends())
        arena.service.wait_for("the positions are missed, or all is copied on", lambda: is_noticed() or copied_on())
        return is_noticed()

    def goes_on() -> bool:
        ended = mirror("resume", "-c", arena.service.file, "--topic", recorder.topic, "--continue")
        assert ended.returncode in (0, 1), ended.stderr
        return copied_on()

    with recorder.watch.in_doubt():
        until("the positions are missed", is_hit)
        until("decided", goes_on)


def _take_positions(arena: Arena, rng: random.Random, recorder: Recorder, vanish: bool) -> None:
    pair = arena.pair
    if vanish:
        topics.delete_group(pair.target, pair.group)
    else:
        at = until("positions", recorder.positions)
        lower = {number: rng.randint(0, max(0, position)) for number, position in at.items()}
        topics.commit(pair.target, pair.group, recorder.remote, lower)


@row("27 the remote topic is altered to replace timestamps, and back", everywhere=False)
def replaced_timestamps(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    """No record may come with another time: who looks first finds it, the leader or a task in the target's answer."""

    def refused(wanted: int) -> bool:
        return arena.service.metric("mirror_refused_topics") == wanted

    arena.service.wait_for("nothing is refused", lambda: refused(0))
    topics.configure(arena.pair.target, recorder.remote, message_timestamp_type="LogAppendTime")
    arena.service.wait_for("told", lambda: refused(1))
    if rng.random() < 0.5:
        worker(arena, rng, recorder)
    time.sleep(rng.uniform(0, 3))
    topics.configure(arena.pair.target, recorder.remote, message_timestamp_type="CreateTime")


@row("18 records from the future and the past")
def skewed_records(_: Arena, rng: random.Random, recorder: Recorder) -> None:
    for sender in recorder.senders:
        sender.skew = rng.choice((-1, 1)) * rng.randint(1_000, 3_500_000)  # a broker takes an hour at most
