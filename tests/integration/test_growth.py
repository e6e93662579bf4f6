"""Topics and partitions that appear while the service runs."""

from __future__ import annotations

import contextlib
import json
import time

from tests.harness import oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.follower import Follower
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import Event, Service
from tests.harness.waiting import until

WINDOWS = 3


def claims(pair: Pair) -> list[tuple[bytes | None, bytes | None]]:
    """What tasks have claimed: a new one would be the mark of a new epoch."""
    records = oracle.read(pair.target, f"mirror-control.{pair.alias}.internal")[0]
    return [(r.key, r.value) for r in records if r.key and r.key.startswith(b"claim/")]


def generations(pair: Pair) -> list[int]:
    records = oracle.read(pair.target, f"mirror-control.{pair.alias}.internal")[0]
    return [json.loads(r.value)["generation"] for r in records if r.key == b"plan" and r.value]


def change(pair: Pair, grown: str, window: int) -> str:
    """A new topic, and one partition more of another one, each with a record; returns the new topic."""
    new = pair.topic(f"new-{window}", 2)
    pair.produce(new, Made(None, b"hello"), partition=1)
    topics.grow(pair.source, grown, window + 2)
    pair.produce(grown, Made(None, b"hello"), partition=window + 1)
    return new


def as_much_work(pair: Pair, grown: str, window: int, end: float) -> None:
    """What a change costs the machine when no service mirrors the topics: also this test's own reading."""
    new = change(pair, grown, window)
    for topic, count in ((new, 2), (grown, window + 2)):
        topics.create(pair.target, f"{pair.remote(topic)}-{window}", count)
    with contextlib.closing(oracle.Reader(pair.source, new)) as reader:
        until("as long as the change took", lambda: bool(reader.to_end()) and time.monotonic() >= end)


def test_new_topics_and_partitions_do_not_disturb_running_ones(shared: Pair, shared_service: Service) -> None:
    apart = shared.other("apart")
    running, grown = shared.topic("running", 2), shared.topic("grown", 1)
    grown_apart = apart.topic("grown", 1)
    for partition in (0, 1):
        shared.produce(running, Made(None, b"first"), partition=partition)
    shared.await_same(running)
    until("the remote topic", lambda: topics.partitions(shared.target, shared.remote(grown)) == 1)
    workers, claimed, planned = shared_service.worker_pids(), claims(shared), generations(shared)
    assert len(workers) == len(claimed) == 2

    still, changing = [], []
    with (
        Load(shared.source, {running: 2}, rate=400) as load,
        Follower(shared.target, shared.remote(running), 0) as follower,
    ):
        load.wait_for(200)
        for window in range(WINDOWS):
            begun = time.monotonic()
            new = change(shared, grown, window)
            shared.await_same(new)
            shared.await_same(grown)
            changing.append(follower.largest_gap(begun))
            took = time.monotonic() - begun

            begun = time.monotonic()
            as_much_work(apart, grown_apart, window, begun + took)
            still.append(follower.largest_gap(begun))
        load.stop()
    shared.await_same(running)
    shared.assert_settled(running)
    assert len(shared.copied(grown)) == WINDOWS + 1

    print(f"largest gaps, seconds: still {still}, changing {changing}")
    # A machine that is busy with something else is slow now and then; an epoch's end would be a pause every time.
    assert min(changing) < 3 * max(still)
    assert shared_service.worker_pids() == workers
    assert claims(shared) == claimed, "the same tasks run: no new epoch"
    assert generations(shared)[: len(planned)] == planned
    assert len(generations(shared)) > len(planned)


def test_a_topic_whose_remote_topic_can_not_have_its_name_is_a_problem_as_long_as_it_is_there(
    shared: Pair, shared_service: Service
) -> None:
    name = shared.topic("x" * (249 - len(shared.prefix)))  # the remote name is too long

    def problem() -> str:
        code, text = shared_service.get("/readyz")
        return text if code == 503 and name in text else ""

    said = f"1 topic can't be mirrored, e.g. {name}: the name of its remote topic would have more than 249 characters"
    assert said in shared_service.wait_for("a problem", problem)
    (event,) = shared_service.find("topics are not mirrored because of their names")
    assert event["topics"] == name
    assert name in mirror("plan", "-c", shared_service.file).stdout
    failed = [
        c["said"] for c in answer("check", "-c", shared_service.file, code=1)["checks"] if c["outcome"] == "FAILED"
    ]
    assert failed == [said.replace(", e.g.", ":")]
    assert shared_service.metric("mirror_refused_topics") == 1
    lacking = [
        shared_service.metric(f"mirror_flow_{what}", side="source")
        - shared_service.metric(f"mirror_flow_{what}", side="target")
        for what in ("topics", "partitions")
    ]
    assert lacking == [1, 1]
    assert shared_service.metric("mirror_flow_state", state="running") == 1
    topics.delete(shared.source, name)
    shared_service.wait_for("no problem", lambda: shared_service.get("/readyz")[0] == 200)
    assert shared_service.metric("mirror_refused_topics") == 0
    topics_of = [shared_service.metric("mirror_flow_topics", side=side) for side in ("source", "target")]
    assert topics_of[0] == topics_of[1] > 0


def test_what_is_left_out_is_told_once_and_when_it_changes(shared: Pair, shared_service: Service) -> None:
    message = "topics match the configuration but are left out"

    def told() -> list[Event]:
        return [event for event in shared_service.find(message) if shared.prefix in event["topics"]]

    since = len(shared_service.events)
    first = shared.topic("first-internal")
    event = shared_service.wait_for("the first", told)[0]
    assert first in event["topics"] and event["reason"].startswith("internal: ")
    # That looks come and go without a word is seen by those that find something.
    shared_service.wait_for_event("creating topic", topic=shared.remote(shared.topic("plain")), since=since)
    second = shared.topic("second-internal")
    shared_service.wait_for("the second", lambda: second in told()[-1]["topics"])
    for topic in (first, second):
        topics.delete(shared.source, topic)
    shared_service.wait_for("the end", lambda: shared.prefix not in shared_service.find(message)[-1]["topics"])
    counts = [event["topics"].count(shared.prefix) for event in told()]
    assert counts in ([1, 2], [1, 2, 1]), "once for each change"


def test_a_topic_that_vanishes_is_told(shared: Pair, shared_service: Service) -> None:
    """It is told the same whether it was deleted or may not be seen any more: the service can't tell these apart."""
    name = shared.topic("vanishes")
    shared.produce(name, Made(None, b"once"))
    shared.await_same(name)
    retired = shared_service.metric("mirror_retired_topics")
    topics.delete(shared.source, name)
    said = shared_service.wait_for_event("topic is not mirrored any more", topic=name)
    assert "deleted" in said["reason"] and "Describe" in said["reason"]
    events = json.loads(shared_service.get("/status")[1])["flows"][0]["events"]
    assert any(name in event["reason"] for event in events)
    shared_service.wait_for("counted", lambda: shared_service.metric("mirror_retired_topics") > retired)
