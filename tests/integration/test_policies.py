"""What can't be copied is told with its offsets, and passed over only where the policy says so.

Either the source no longer has it, or the target refuses it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.checker.history import Record
from tests.harness import configuration, oracle, topics
from tests.harness.command import answer, decide, mirror
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, PASSED_OVER, PLANNED, REFUSED, Event, Service
from tests.harness.together import together
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow

LOST = "mirror_lost_offsets_total"
UNNAMED = "topics are not mirrored because of their names"

# A replication policy of a user's own. It notes the processes that import it, and gives one topic a new name each time.
OWN_NAMES = """
import itertools
import os
from pathlib import Path

calls = itertools.count()

with Path(__file__).with_name("imported").open("a") as file:
    print(os.getpid(), file=file)


class Dashes:
    def format_remote_topic(self, source, topic):
        if topic.endswith("wrong"):
            raise KeyError("s3cret")
        return f"{source}--{topic}" + (f"--{os.getpid()}-{next(calls)}" if topic.endswith("moody") else "")

    def topic_source(self, topic):
        return topic.partition("--")[0] if "--" in topic else None

    def upstream_topic(self, topic):
        return topic.split("--")[1] if "--" in topic else None

    def is_internal_topic(self, topic):
        return topic.endswith("hidden")
"""


class Flows:
    """One service with a flow between the shared clusters for each policy."""

    def __init__(self, source: str, target: str, data_path: str, directory: Path) -> None:
        self.all = [
            Pair(source, target, f"policy{name}", f"policy{name}-").by(data_path) for name in ("fail", "skip", "letter")
        ]
        self.fail, self.skip, self.letter = self.all
        self.skip = self.all[1] = replace(self.skip, template="{source}--{topic}")
        self.names = directory / "own_names.py"
        self.names.write_text(OWN_NAMES)
        self.letter = self.all[2] = replace(self.letter, template="{topic}.of.{source}")
        self.own = self.letter.topic("own")  # before the flow first runs, so that `start` counts
        produce(self.letter, self.own, 0, 10)
        # Of the topic "late", if it ever comes, by the template.
        self.own_remote = self.letter.remote(f"{self.letter.prefix}late")
        own = {"remote_topic": self.own_remote, "start": "latest", "on_data_loss": "skip", "on_poison_record": "skip"}
        named = {"remote_topic": self.letter.template, "topic_settings": {self.own: own}}
        left = {"sync_topic_configs": False}  # the tests change remote topics themselves
        settings = configuration.together(
            self.fail.settings({"on_data_loss": "fail", "on_poison_record": "fail", **left}),
            self.skip.settings(
                {
                    "on_data_loss": "skip",
                    "on_poison_record": "skip",
                    "replication_policy": f"{self.names.stem}.Dashes",
                    **left,
                }
            ),
            self.letter.settings({"on_poison_record": "dead_letter", **named, **left}),
        )
        self.service = Service(settings, directory)

    def told(self, message: str, topic: str) -> Event:
        """The one event about the loss on a topic."""
        event = self.service.wait_for_event(message, topic=topic)
        assert len(self.service.find(message, topic=topic)) == 1, "said more than once"
        return event


@pytest.fixture(scope="module")
def flows(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Flows]:
    directory = tmp_path_factory.mktemp("loss")
    with pytest.MonkeyPatch.context() as environment:  # of the service and of all commands
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH")))))
        yield from served(Flows(source_cluster.bootstrap, target_cluster.bootstrap, data_path, directory))


def served(running: Flows) -> Iterator[Flows]:
    with running.service as service:
        for pair in running.all:
            pair.topic("first")
        service.wait_for("plans", lambda: all(service.find(PLANNED, flow=pair.flow) for pair in running.all))
        yield running
        for pair in running.all:
            pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise, service.tail()


def produce(pair: Pair, topic: str, first: int, count: int, partition: int = 0) -> None:
    records = (Made(None, b"%d" % number) for number in range(first, first + count))
    pair.produce(topic, *records, partition=partition)


def values(pair: Pair, topic: str, partition: int = 0) -> list[int]:
    copied = pair.copied(topic)
    return [int(record.value or b"") for record in copied[partition]] if copied else []


def begin(pair: Pair, name: str) -> str:
    """A topic with offsets 0 to 99 copied of partition 0, and a witness beside it."""
    topic = pair.topic(name, 2)
    produce(pair, topic, 0, 100)
    pair.await_same(topic)
    return topic


def recreate(pair: Pair, topic: str) -> None:
    """Delete a topic and create another of its name."""
    topics.recreate(pair.source, topic, 2)


@pytest.mark.both_paths
def test_deleted_records(flows: Flows) -> None:
    together(
        partial(deleted_records_stop_their_partition_alone, flows),
        partial(deleted_records_are_passed_over, flows),
        partial(a_topic_has_settings_of_its_own, flows),
    )


def a_topic_has_settings_of_its_own(flows: Flows) -> None:
    """Its name, its start and its policies differ from those of its flow."""
    pair, topic, remote = flows.letter, flows.own, flows.own_remote

    def there() -> list[bytes | None]:
        return [record.value for record in oracle.read(pair.target, remote)[0]]

    flows.service.wait_for("its start", lambda: oracle.committed_position(pair.target, pair.group, remote, 0) == 10)
    produce(pair, topic, 10, 10)
    wanted: list[bytes | None] = [b"%d" % number for number in range(10, 20)]
    flows.service.wait_for("what came later", lambda: there() == wanted)
    topics.configure(pair.target, remote, max_message_bytes=50_000)
    pair.produce(topic, POISON["too-large"][1])
    assert "at offset 20" in flows.told(REFUSED, topic)["reason"]
    flows.service.wait_for("skipped", lambda: flows.service.metric(LOST, topic=topic, reason="refused") == 1)
    with flows.service.workers_stopped():
        produce(pair, topic, 21, 20)
        topics.remove_records(pair.source, topic, 31)
    assert "offsets 21 to 30 were deleted" in flows.told(PASSED_OVER, topic)["reason"]
    wanted += [b"%d" % number for number in range(31, 41)]
    flows.service.wait_for("what is left", lambda: there() == wanted)

    late = pair.topic("late")
    produce(pair, late, 0, 10)
    event = flows.service.wait_for_event(UNNAMED, topics=late)
    assert event["reason"] == f"its remote topic would be {remote}, which holds the copy of {topic}"
    refused = partial(flows.service.metric, "mirror_refused_topics", source=pair.alias)
    flows.service.wait_for("counted", lambda: refused() == 1)
    (check,) = [
        c for c in answer("check", "-c", flows.service.file, code=1)["checks"] if c["what"] == "names of remote topics"
    ]
    assert late in check["said"] and topic in check["said"]
    produce(pair, topic, 41, 1)
    flows.service.wait_for("the first one goes on", lambda: there() == [*wanted, b"41"])
    topics.delete(pair.source, late)
    flows.service.wait_for("said no more", lambda: flows.service.find(UNNAMED, count=0) and refused() == 0)


def deleted_records_stop_their_partition_alone(flows: Flows) -> None:
    pair = flows.fail
    topic = begin(pair, "deleted")
    with flows.service.workers_stopped():
        produce(pair, topic, 100, 100)
        topics.remove_records(pair.source, topic, 150)
        produce(pair, topic, 1000, 10, partition=1)
    event = flows.told(BLOCKED, topic)
    assert "offsets 100 to 149 were deleted on the source" in event["reason"]
    assert "mirror resume --skip-lost" in event["reason"], "it says what a person can do"
    assert (event["flow"], event["partition"], event["state"]) == (pair.flow, 0, "blocked")
    flows.service.wait_for("the other partition goes on", lambda: len(values(pair, topic, 1)) == 10)
    blocked = {"source": pair.alias, "state": "blocked"}
    flows.service.wait_for("shown", lambda: flows.service.metric("mirror_partitions", **blocked) == 1)
    assert flows.service.get("/readyz")[0] == 503
    assert values(pair, topic) == list(range(100))
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == 100


def deleted_records_are_passed_over(flows: Flows) -> None:
    pair = flows.skip
    topic = begin(pair, "deleted")
    with flows.service.workers_stopped():
        produce(pair, topic, 100, 100)
        topics.remove_records(pair.source, topic, 150)
    assert "offsets 100 to 149 were deleted on the source" in flows.told(PASSED_OVER, topic)["reason"]
    flows.service.wait_for("what is left", lambda: values(pair, topic) == [*range(100), *range(150, 200)])
    flows.service.wait_for("counted", lambda: flows.service.metric(LOST, topic=topic, reason="deleted") == 50)


RECREATED = (10, 100, 300)  # records of the new topic: it is shorter than the old one, as long, longer


@pytest.mark.both_paths
def test_choices_and_recreated_topics(flows: Flows) -> None:
    together(
        partial(an_explicit_choice_goes_on_after_deleted_records, flows),
        *(partial(a_recreated_topic_stops_its_partitions, flows, count) for count in RECREATED),
        *(partial(a_recreated_topic_is_copied_from_its_beginning, flows, count) for count in RECREATED),
        partial(a_topic_that_is_recreated_under_the_consumer, flows),
    )


def an_explicit_choice_goes_on_after_deleted_records(flows: Flows) -> None:
    pair = flows.fail
    topic = begin(pair, "chosen")
    with flows.service.workers_stopped():
        produce(pair, topic, 100, 100)
        topics.remove_records(pair.source, topic, 150)
    flows.told(BLOCKED, topic)
    decide(flows.service, "--flow", pair.flow, "--topic", topic, "--skip-lost")
    flows.service.wait_for("what is left", lambda: values(pair, topic) == [*range(100), *range(150, 200)])
    with flows.service.workers_stopped():
        produce(pair, topic, 200, 100)
        topics.remove_records(pair.source, topic, 250)
    flows.service.wait_for("the choice was for one loss", lambda: len(flows.service.find(BLOCKED, topic=topic)) == 2)
    assert values(pair, topic) == [*range(100), *range(150, 200)]


def begin_and_recreate(flows: Flows, pair: Pair, count: int) -> str:
    """A topic that was copied, then deleted and created again with `count` other records; returns its name."""
    topic = begin(pair, f"recreated-{count}")
    with flows.service.workers_stopped():
        recreate(pair, topic)
        produce(pair, topic, 5000, count)
    return topic


def a_recreated_topic_stops_its_partitions(flows: Flows, count: int) -> None:
    pair = flows.fail
    topic = begin_and_recreate(flows, pair, count)
    event = flows.service.wait_for(
        "told", lambda: [e for e in flows.service.find(BLOCKED, topic=topic) if "created again:" in e["reason"]]
    )[0]
    assert "what followed offset 99 of the old one is lost" in event["reason"]
    assert values(pair, topic) == list(range(100))
    decide(flows.service, "--flow", pair.flow, "--topic", topic, "--skip-lost")
    flows.service.wait_for("chosen", lambda: values(pair, topic) == [*range(100), *range(5000, 5000 + count)])


def a_recreated_topic_is_copied_from_its_beginning(flows: Flows, count: int) -> None:
    pair = flows.skip
    topic = begin_and_recreate(flows, pair, count)
    flows.told(PASSED_OVER, topic)
    flows.service.wait_for(
        "all of the new topic", lambda: values(pair, topic) == [*range(100), *range(5000, 5000 + count)]
    )
    flows.service.wait_for("counted", lambda: flows.service.metric(LOST, topic=topic, reason="recreated") >= 1)


def a_topic_that_is_recreated_under_the_consumer(flows: Flows) -> None:
    """The topic is recreated at once and is longer than before, so that the offset alone can't tell."""
    pair = flows.skip
    topic = begin(pair, "swapped")
    recreate(pair, topic)
    produce(pair, topic, 5000, 300)
    flows.told(PASSED_OVER, topic)
    flows.service.wait_for("all of the new topic", lambda: values(pair, topic) == [*range(100), *range(5000, 5300)])


# Records that the target refuses.

POISON = {
    "too-large": ({"max.message.bytes": "50000"}, Made(b"key", b"x" * 60_000), "Message size too large"),
    "without-key": ({"cleanup.policy": "compact"}, Made(None, b"no key for compaction"), "record"),
    "too-old": ({"message.timestamp.before.max.ms": "3600000"}, Made(b"key", b"of long ago"), "timestamp"),
}
LONG_AGO = 1_000_000_000_000  # ms since the Unix epoch


def poison(pair: Pair, kind: str, prefix: str = "") -> str:
    """A topic whose remote one refuses the record at offset 150: there are good ones before it and after it."""
    topic = begin(pair, f"{prefix}poison-{kind}")
    refusing, record, _ = POISON[kind]
    topics.configure(pair.target, pair.remote(topic), **refusing)
    numbers = [Made(b"key", b"%d" % number) for number in range(100, 250)]
    pair.produce(topic, *numbers[:50])
    pair.produce(topic, record, timestamp=LONG_AGO if kind == "too-old" else 0)
    pair.produce(topic, *numbers[50:])
    pair.produce(topic, Made(b"key", b"1"), partition=1)
    return topic


@pytest.mark.both_paths
def test_a_refused_record(flows: Flows) -> None:
    together(
        *(partial(a_refused_record_stops_its_partition_alone, flows, kind) for kind in POISON),
        partial(an_explicit_choice_goes_on_after_a_refused_record, flows, "too-large"),
        *(partial(a_refused_record_is_passed_over, flows, kind) for kind in POISON),
        *(partial(a_refused_record_becomes_a_dead_letter, flows, kind) for kind in POISON),
    )


def a_refused_record_stops_its_partition_alone(flows: Flows, kind: str) -> None:
    pair = flows.fail
    topic = poison(pair, kind)
    reason = flows.told(BLOCKED, topic)["reason"]
    assert reason.startswith(f"the target refuses the record at offset 150 ({len(POISON[kind][1].value or b'')} bytes)")
    assert POISON[kind][2] in reason
    flows.service.wait_for("the other partition goes on", lambda: values(pair, topic, 1) == [1])
    assert values(pair, topic) == list(range(150))
    assert oracle.committed_position(pair.target, pair.group, pair.remote(topic), 0) == 150
    normal = {
        "max.message.bytes": "1048588",
        "cleanup.policy": "delete",
        "message.timestamp.before.max.ms": str(2**63 - 1),
    }
    topics.configure(pair.target, pair.remote(topic), **normal)
    pair.await_same(topic)


def an_explicit_choice_goes_on_after_a_refused_record(flows: Flows, kind: str) -> None:
    pair = flows.fail
    topic = poison(pair, kind, "chosen-")
    flows.told(BLOCKED, topic)
    decide(flows.service, "--flow", pair.flow, "--topic", topic, "--partition", 0, "--skip-lost")
    flows.service.wait_for("what is good", lambda: values(pair, topic) == list(range(250)))


def a_refused_record_is_passed_over(flows: Flows, kind: str) -> None:
    pair = flows.skip
    topic = poison(pair, kind)
    assert "at offset 150" in flows.told(REFUSED, topic)["reason"]
    flows.service.wait_for("what is good", lambda: values(pair, topic) == list(range(250)))
    flows.service.wait_for("counted", lambda: flows.service.metric(LOST, topic=topic, reason="refused") == 1)


def a_refused_record_becomes_a_dead_letter(flows: Flows, kind: str) -> None:
    pair = flows.letter
    topic = poison(pair, kind)
    flows.service.wait_for("what is good", lambda: values(pair, topic) == list(range(250)))

    def ours() -> list[Record]:
        """One that stands before it may be in another topic's transaction, which is still open."""
        (letters,) = oracle.read(pair.target, f"mirror-dead-letters.{pair.alias}.internal").values()
        return [each for each in letters if ("mirror.dead-letter.topic", topic.encode()) in each.headers]

    (letter,) = flows.service.wait_for("its letter", ours)
    record = oracle.read(pair.source, topic)[0][150]
    told = {name.removeprefix("mirror.dead-letter."): value for name, value in letter.headers}
    assert (letter.key, letter.value) == (record.key, record.value)
    assert (told["partition"], told["offset"]) == (b"0", b"150")
    assert told["timestamp"] == b"%d" % record.timestamp
    assert POISON[kind][2].encode() in (told["reason"] or b"")
    flows.service.wait_for("counted", lambda: flows.service.metric(LOST, topic=topic, reason="dead_letter") == 1)


def a_policy_of_the_users_own_names_remote_topics(flows: Flows) -> None:
    """The tests of this flow show that records and positions are under its names."""
    pair, service = flows.skip, flows.service
    topic, wrong, hidden = (begin(pair, "named"), pair.topic("wrong"), pair.topic("hidden"))
    reason = service.wait_for_event(UNNAMED, topics=wrong)["reason"]
    assert "own_names.Dashes fails in format_remote_topic: KeyError at own_names.py:" in reason
    left_out = service.wait_for_event("topics match the configuration but are left out", topics=hidden)
    assert left_out["reason"] == "internal: its replication policy says so"
    assert not any("s3cret" in line for line in service.lines)
    imported = {int(pid) for pid in flows.names.with_name("imported").read_text().split()}
    assert imported & {process.pid for process in service.processes()} == {service.pid}, "no process of Spark's"

    assert_a_policy_that_changes_its_mind_moves_no_topic(flows)
    # As if the service were started again with another class: the topic is not copied to a second remote topic.
    flows.names.write_text(OWN_NAMES.replace("--", "_to_"))
    of_flow = ("-c", service.file, "--flow", pair.flow)
    (found,) = json.loads(mirror("plan", *of_flow, "--json").stdout)["flows"]
    (moved,) = [names for reason, names in found["unnamed"].items() if "another name than that of its copy" in reason]
    assert topic in moved and topic not in {partition["topic"] for partition in found["partitions"]}
    at = ("--topic", topic, "--partition", 0, "--offset", 50)
    (there,) = answer("translate", *of_flow, *at)["offsets"]
    assert (there["remote"], there["translated"]) == (pair.remote(topic), pair.copied(topic)[0][50].offset)


def assert_a_policy_that_changes_its_mind_moves_no_topic(flows: Flows) -> None:
    """A running service asks about a topic once. Who asks anew does not mirror the topic under the new name."""
    pair, service = flows.skip, flows.service
    moody = pair.topic("moody")

    def copies() -> dict[str, list[bytes | None]]:
        known = topics.admin(pair.target).list_topics(timeout=PATIENCE).topics
        names = [name for name in known if name.startswith(pair.remote(moody))]
        return {name: [record.value for record in oracle.read(pair.target, name)[0]] for name in names}

    pair.produce(moody, Made(None, b"first"))
    service.wait_for("a copy", lambda: list(copies().values()) == [[b"first"]])
    since = len(service.events)
    os.kill(service.pid, signal.SIGHUP)
    service.wait_for_event("configuration reloaded", since=since)
    later = begin(pair, "later")  # found after that, by a look at all topics
    pair.produce(moody, Made(None, b"second"))
    service.wait_for("the same copy", lambda: list(copies().values()) == [[b"first", b"second"]])
    assert not service.find(UNNAMED, topics=moody)
    of_flow = ("-c", service.file, "--flow", pair.flow)
    (found,) = json.loads(mirror("plan", *of_flow, "--json").stdout)["flows"]
    (moved,) = [names for reason, names in found["unnamed"].items() if "another name than that of its copy" in reason]
    assert moved == [moody] and later in {partition["topic"] for partition in found["partitions"]}
    at = ("--topic", moody, "--partition", 0, "--offset", 1)
    (there,) = answer("translate", *of_flow, *at)["offsets"]
    assert [there["remote"]] == list(copies()), "the plan knows it"


PLACES = (10, 1_500, 2_990)  # in front, in the middle, at the end


def test_many_requests_and_a_dead_letter_that_is_refused_too(flows: Flows) -> None:
    """The limit of the dead letters is lower from here on."""
    together(
        *(partial(a_refused_record_in_a_batch_of_many_requests, flows, place) for place in PLACES),
        partial(a_dead_letter_that_is_refused_too_goes_without_its_bytes, flows),
        partial(a_policy_of_the_users_own_names_remote_topics, flows),
    )


def a_refused_record_in_a_batch_of_many_requests(flows: Flows, place: int) -> None:
    """Some of which the target has taken before it refuses one; of so small a limit it refuses all of them at first."""
    pair = flows.skip
    topic = begin(pair, f"many-{place}")
    topics.configure(pair.target, pair.remote(topic), max_message_bytes=50_000)
    records = [Made(b"key", b"%01000d" % number) for number in range(100, 3_100)]
    with flows.service.workers_stopped():
        pair.produce(topic, *records[:place], POISON["too-large"][1], *records[place:])
    assert f"at offset {100 + place} " in flows.told(REFUSED, topic)["reason"]
    flows.service.wait_for("what is good", lambda: values(pair, topic) == list(range(3_100)))


def a_dead_letter_that_is_refused_too_goes_without_its_bytes(flows: Flows) -> None:
    pair = flows.letter
    letters = f"mirror-dead-letters.{pair.alias}.internal"
    topics.configure(pair.target, letters, max_message_bytes=50_000)
    topic = begin(pair, "twice")
    topics.configure(pair.target, pair.remote(topic), max_message_bytes=50_000)
    pair.produce(topic, POISON["too-large"][1])
    produce(pair, topic, 100, 1)
    flows.service.wait_for("what is good", lambda: values(pair, topic) == list(range(101)))
    letter = oracle.read(pair.target, letters)[0][-1]
    assert (letter.key, letter.value) == (None, None)
    assert ("mirror.dead-letter.offset", b"100") in letter.headers
    assert ("mirror.dead-letter.value-bytes", b"60000") in letter.headers
