"""Reads the control topics of all flows on one cluster: their plans, their announcements, and signs of life.

Other services wrote these topics; they may run another version of mirror, be broken or be hostile. So a record that
cannot be read or decoded is left out and listed as a doubt. It never stops the flow that reads.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from mirror.control.conflicts import Note
from mirror.control.control_topics import INTENT_KEY, NOT_YET, PLAN_KEY, READ_TIMEOUT
from mirror.control.observed_topics import LONG_AGO, Budget, ControlTopic, StatusTopic, age
from mirror.control.signs import SIGN_KEY
from mirror.kafka.client_errors import is_away
from mirror.kafka.clients import QUEUE_RECORDS, internal_consumer
from mirror.kafka.cluster import TIMEOUT, ClusterAdmin, Refusals
from mirror.kafka.listed_offsets import checked_offset
from mirror.kafka.renewed import close_apart
from mirror.settings import Cluster

CONTROL = re.compile(r"mirror-control\.(.+)\.internal")
TOPICS_MAX = 1_000  # most control topics that are read; nobody has so many flows into one cluster
VALUES_MAX = 2**25  # most bytes of plans and intents that are held; a plan of 10,000 partitions has about 50 kB
TOO_MUCH = f"too much to check: the plans on all control topics there have more than {VALUES_MAX // 2**20} MiB together"
UNCHECKED = "replication cycles, and flows that write to the same topics, can't be ruled out"
DOUBTS_MAX = 20  # most doubts that are reported
STRAGGLE = 0.1  # seconds during which answers may still arrive after a consumer has stopped fetching
TRY_AGAIN = 60.0  # seconds before a topic that could not be read is tried again
READING_MAX = 20.0  # seconds that one reading may take: the flow leader, which reads, has to show that it lives
SIGNS_MAX = 100  # signs of life that are kept of one reading of a topic; a living service gives one in two seconds
# Last reports of a status topic whose newest timestamp counts: several tasks write it, so the last need not be newest.
NEWEST = 10


class ClusterPlans(ClusterAdmin):
    """Reads all control topics of a cluster but the flow's own; `control_topics` has them by the alias in their name.

    Each reading starts where the last one ended, and fetches only if there is something new. That is at almost each
    look: a living service gives a sign of life every two seconds. So the consumer stays open between two readings.
    """

    def __init__(self, cluster: Cluster, group: str, own: str, sample: str) -> None:
        """`own` is the control topic to leave out.

        `sample` is the name of a control topic that need not exist; it shows whether we may see topics of such names.
        """
        super().__init__(cluster)
        self.cluster_id = ""
        self.control_topics: dict[str, ControlTopic] = {}
        self._cluster = cluster
        self._group = group
        self._own = own
        self._sample = sample
        self._topics: frozenset[str] = frozenset()
        self._status_topics: dict[str, StatusTopic] = {}
        self._silent: dict[str, float] = {}  # by alias: seconds of silence at the last look
        self._by_successor: dict[str, bool] = {}  # by alias: was the last sign of life that of a successor?
        self._unread: dict[str, str] = {}  # by topic: why it cannot be read
        self._again: dict[str, float] = {}  # by topic: the monotonic time when it is tried again
        self._budget = Budget(VALUES_MAX)
        self._idle: Consumer | None = None  # the consumer, while nothing is read; after a failure another one is made
        self._sample_again = LONG_AGO  # the same for the sample; apart, since a flow may create that very topic

    @property
    def doubts(self) -> list[Note]:
        """What could not be read or decoded, and why."""
        remedy = "allow Describe and Read on mirror-*.internal there"
        unread = [
            Note(f"{name} of {self.alias} can't be read ({reason})", f"{UNCHECKED}: {remedy}")
            for name, reason in sorted(self._unread.items())
        ]
        strange = [
            Note(
                f"{control_topic(alias)} of {self.alias} has no {key.decode()} that can be decoded ({reason})",
                f"another version of mirror or another program wrote it: {UNCHECKED}",
            )
            for alias, topic in self.control_topics.items()
            for key, reason in topic.doubts.items()
        ]
        return (unread + strange)[:DOUBTS_MAX]

    def read(self) -> None:
        """Read what was written since the last reading. Raises ClusterAway."""
        self._list()
        ends = self._ends(map(control_topic, self.control_topics))
        spans: dict[str, tuple[int, int]] = {}
        for name, end in ends.items():
            topic = self.control_topics[_alias(name)]
            if end < topic.reached:  # the topic was recreated
                topic = self.control_topics[_alias(name)] = ControlTopic()
                self._budget.forget(name)
                self.close()  # it may know the old topic only
            spans[name] = topic.reached, end
        self._take(spans)
        for name, (_, end) in spans.items():
            if name not in self._unread:  # the last offset may be a transaction marker
                self.control_topics[_alias(name)].reached = max(end, self.control_topics[_alias(name)].reached)

    def _take(self, spans: Mapping[str, tuple[int, int]]) -> None:
        """Read each topic from the first offset to before the second, and keep what it says."""
        newest: dict[tuple[str, bytes], Message | None] = {}
        signs: dict[str, deque[bytes]] = {name: deque(maxlen=SIGNS_MAX) for name in spans}
        for message in self._fetch(spans):
            name, key = str(message.topic()), message.key() or b""
            self.control_topics[_alias(name)].reached = int(message.offset() or 0) + 1
            if key in (PLAN_KEY, INTENT_KEY):
                newest[name, key] = message if self._budget.takes(name, key, len(message.value() or b"")) else None
            elif key == SIGN_KEY and spans[name][0]:  # the first reading has many, which may all be old
                signs[name].append(message.value() or b"")
        for (name, key), message in newest.items():
            topic = self.control_topics[_alias(name)]
            if message is None:
                topic.pass_over(key, TOO_MUCH)
            else:
                topic.keep(key, message, is_new=spans[name][0] > 0)
        for name, heard in signs.items():
            for sign in heard:
                self.control_topics[_alias(name)].hear(sign)

    def silence(self, alias: str) -> float:
        """Seconds since the last sign of life of the flow whose control topic has this alias. Raises ClusterAway.

        The first look has only the timestamps of records. Clocks differ, so from then on reports, plans and signs of
        life that are new count, whatever their time: whoever looks a second time, after LIFE_SHOWS, knows who lives. A
        timestamp in the future counts as now: that clock is wrong, but somebody is alive. So does a service that is to
        take the place of the one whose plan stands there: see `lives_by_successor`.
        """
        name = f"mirror-status.{alias}.internal"
        ends = self._ends([name] if name in self._topics else [])
        if name in ends:
            before, end = self._status_topics.get(name), ends[name]
            if before is None or end < before.end:
                ages = [age(message) for message in self._fetch({name: (max(0, end - NEWEST), end)})]
                if name not in self._unread:
                    self._status_topics[name] = StatusTopic(end, time.monotonic() - min(ages, default=-LONG_AGO))
            elif end > before.end:
                self._status_topics[name] = StatusTopic(end, time.monotonic())
        if not {name, control_topic(alias)} & self._unread.keys():  # otherwise the last one counts; 0, alive, at first
            alive_at = self._status_topics[name].alive_at if name in self._status_topics else LONG_AGO
            topic, now = self.control_topics.get(alias, ControlTopic()), time.monotonic()
            own = now - max(topic.written, alive_at)
            self._silent[alias] = min(own, now - topic.successor_at)
            self._by_successor[alias] = self._silent[alias] < own
        return self._silent.get(alias, 0.0)

    def lives_by_successor(self, alias: str) -> bool:
        """True if the last sign of life is of a service that has neither plan nor intent there yet. After `silence`."""
        return self._by_successor.get(alias, False)

    def _list(self) -> None:
        found = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT))
        self.cluster_id = str(found.cluster_id or "")
        self._topics = frozenset(found.topics)
        self._unread = {name: reason for name, reason in self._unread.items() if name in {*self._topics, self._sample}}
        names = sorted(name for name in self._topics if CONTROL.fullmatch(name) and name != self._own)
        for name in names[TOPICS_MAX : TOPICS_MAX + 1]:
            self._unread[name] = f"there are {len(names)} control topics, of which {TOPICS_MAX} are read"
        before = self.control_topics
        self.control_topics = {alias: before.get(alias) or ControlTopic() for alias in map(_alias, names[:TOPICS_MAX])}
        for alias in before.keys() - self.control_topics.keys():
            self._budget.forget(control_topic(alias))
        if self._sample not in self._topics and time.monotonic() >= self._sample_again:
            self._look_for_sample()

    def _look_for_sample(self) -> None:
        """Find out whether control topics are hidden from us, by describing one by its name.

        A listing omits topics that we may not describe, as if they did not exist. Only a request that names one of
        them is refused.
        """
        asked = self._admin.describe_topics(TopicCollection([self._sample]), request_timeout=TIMEOUT)
        refused: Refusals = {}
        self._results(asked, refused)
        if self._sample in refused and refused[self._sample].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._unread[self._sample] = "Describe is not allowed"
        else:
            self._unread.pop(self._sample, None)
        self._sample_again = time.monotonic() + TRY_AGAIN

    def _give_up(self, name: str, reason: str) -> None:
        self._unread[name] = reason
        self._again[name] = time.monotonic() + TRY_AGAIN

    def _ends(self, topics: Iterable[str]) -> dict[str, int]:
        """The end of each topic for a read_committed reader, without topics whose leader does not answer now."""
        found: dict[str, int] = {}
        now = time.monotonic()
        wanted, deadline = {name for name in topics if self._again.get(name, 0.0) <= now}, now + READ_TIMEOUT
        while wanted:
            failed = self._ask_ends(wanted, found)
            # Ask again while a leader is missing or slow: a topic that is given up is not read for a minute, and its
            # flow counts as alive meanwhile, even if it is silent. But the next reading does not wait for it again.
            passing = {name for name, error in failed.items() if error.code() in NOT_YET or is_away(error)}
            wanted = passing - self._unread.keys()
            if time.monotonic() > deadline:
                wanted = set()
            for name in failed.keys() - wanted:
                self._give_up(name, failed[name].str())
            time.sleep(0.1 if wanted else 0.0)
        for name in found:
            self._unread.pop(name, None)
        return found

    def _ask_ends(self, wanted: Iterable[str], found: dict[str, int]) -> Refusals:
        spec = {TopicPartition(name, 0): OffsetSpec.latest() for name in wanted}
        asked = self._admin.list_offsets(spec, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT)
        failed: Refusals = {}
        deadline = time.monotonic() + 2 * TIMEOUT  # for all: librdkafka can forget a request
        for tp, future in asked.items():
            try:
                found[tp.topic] = checked_offset(future.result(max(0.0, deadline - time.monotonic())))
            except KafkaException as error:
                failed[tp.topic] = error.args[0]
            except TimeoutError:
                failed[tp.topic] = KafkaError(KafkaError._TIMED_OUT)
        return failed

    def _fetch(self, spans: Mapping[str, tuple[int, int]]) -> Iterator[Message]:
        """The records of each topic from the first offset to before the second, and perhaps newer ones.

        A topic that has too many, or gets them faster than they can be read, is given up for a while.
        """
        left = {name: span for name, span in spans.items() if span[0] < span[1]}
        until = time.monotonic() + READING_MAX
        while left:
            idle, self._idle = self._idle, None
            consumer = idle or internal_consumer(self._cluster, self._group)
            try:
                yield from self._fetch_with(consumer, left, until)
                if not left:
                    consumer.unassign()
                    consumer.consume(1000, STRAGGLE)  # what arrived meanwhile must not stay unread: see ControlReader
                    self._idle = consumer
            finally:
                if self._idle is not consumer:
                    close_apart(consumer)
            if idle is None or time.monotonic() >= until:
                break
        for name, (begin, _) in left.items():
            too_many = begin > spans[name][0]  # some of them have arrived
            why = "it has too many records; no mirror writes so many" if too_many else "its records do not arrive"
            self._give_up(name, why)

    def close(self) -> None:
        """End the consumer that is open between two readings. The next one makes another."""
        if self._idle is not None:
            close_apart(self._idle)
            self._idle = None

    def _fetch_with(self, consumer: Consumer, left: dict[str, tuple[int, int]], until: float) -> Iterator[Message]:
        """Fetch with this consumer, no longer than `until` (monotonic). In `left` stays what has not arrived."""
        consumer.assign([TopicPartition(name, 0, begin) for name, (begin, _) in left.items()])
        deadline = time.monotonic() + READ_TIMEOUT
        while left and time.monotonic() < min(deadline, until):
            for message in consumer.consume(QUEUE_RECORDS, 0.1):
                name, error = str(message.topic()), message.error()
                offset = int(message.offset() or 0)
                if error is None:
                    if name in left:  # living flows write all the time: only what is missing is progress
                        deadline = time.monotonic() + READ_TIMEOUT
                    yield message
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    self._give_up(name, "Read is not allowed")
                elif error.code() != KafkaError._PARTITION_EOF:
                    continue
                if name in left and (error is not None or offset + 1 >= left[name][1]):
                    del left[name]
                elif name in left:
                    left[name] = offset + 1, left[name][1]


def control_topic(alias: str) -> str:
    """The name of the control topic of flows whose source has this alias."""
    return f"mirror-control.{alias}.internal"


def _alias(topic: str) -> str:
    found = CONTROL.fullmatch(topic)
    assert found
    return found[1]
