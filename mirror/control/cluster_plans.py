"""The control topics of one cluster, whoever writes them: what stands there, and who still shows signs of life.

All of it was written by others, who may be another version of mirror, broken or hostile: what can't be read or decoded
is left out, and told as a doubt; it never ends the flow that reads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as FuturesTimeout
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror.control.conflicts import Note, Statement
from mirror.control.topics import INTENT_KEY, NOT_YET, PLAN_KEY, READ_TIMEOUT
from mirror.kafka.clients import internal_consumer
from mirror.kafka.cluster import TIMEOUT, ClusterAdmin, Refusals, checked_offset
from mirror.settings import Cluster

CONTROL = re.compile(r"mirror-control\.(.+)\.internal")
TOPICS_MAX = 1_000  # control topics that are read; nobody has so many flows into one cluster
UNCHECKED = "circles, and flows that write to the same topics, can't be excluded"
LONG_AGO = -1e9  # monotonic
DOUBTS_MAX = 20  # that are told
TRY_AGAIN = 60.0  # seconds after which what could not be read is tried again
NEWEST = 10  # reports of which the newest counts: of several tasks none need be the last


@dataclass(slots=True)
class ControlTopic:
    """What stands on one control topic."""

    reached: int = 0  # offset
    written: float = LONG_AGO  # monotonic: when the newest plan or intent was
    statements: dict[bytes, Statement] = field(default_factory=dict)  # by key
    doubts: dict[bytes, str] = field(default_factory=dict)  # by key: why what stands there can't be decoded

    def effective(self) -> Iterator[tuple[Statement, bool]]:
        """What others have to mind, and is it a plan? An intent that a plan has followed means nothing any more."""
        plan, intent = self.statements.get(PLAN_KEY), self.statements.get(INTENT_KEY)
        if plan and not plan.stop:
            yield plan, True
        if intent and (plan is None or intent.generation > plan.generation):
            yield intent, False


@dataclass(slots=True)
class StatusTopic:
    """What is known of the reports on one status topic."""

    end: int  # offset
    alive_at: float  # monotonic: the last sign of life


class ClusterPlans(ClusterAdmin):
    """Reads on from where the last reading ended, and opens a consumer only where there is something to read.

    `topic` has what stands on each control topic but `own`, by the alias in its name.
    """

    def __init__(self, cluster: Cluster, group: str, own: str, sample: str) -> None:
        """`own` and `sample` are topics; all that are like `sample`, which need not exist, should be visible to us."""
        super().__init__(cluster)
        self.cluster_id = ""
        self.control_topics: dict[str, ControlTopic] = {}
        self._cluster = cluster
        self._group = group
        self._own = own
        self._sample = sample
        self._topics: frozenset[str] = frozenset()
        self._status_topics: dict[str, StatusTopic] = {}
        self._silent: dict[str, float] = {}  # by alias: seconds, at the last look
        self._unread: dict[str, str] = {}  # topics, and why they can't be read
        self._again: dict[str, float] = {}  # monotonic: when they are to be tried again

    @property
    def doubts(self) -> list[Note]:
        """What can't be told, and why."""
        remedy = "allow Describe and Read on mirror-*.internal there"
        unread = [
            Note(f"{name} of {self.alias} can't be read ({reason})", f"{UNCHECKED}: {remedy}")
            for name, reason in sorted(self._unread.items())
        ]
        strange = [
            Note(
                f"{control_topic(alias)} of {self.alias} has no {key.decode()} that can be decoded ({reason})",
                f"another version of mirror wrote it, or somebody else: {UNCHECKED}",
            )
            for alias, topic in self.control_topics.items()
            for key, reason in topic.doubts.items()
        ]
        return (unread + strange)[:DOUBTS_MAX]

    def read(self) -> None:
        """Take what has been written since the last reading. Raises ClusterAway."""
        self._list()
        ends = self._ends(map(control_topic, self.control_topics))
        spans: dict[str, tuple[int, int]] = {}
        for name, end in ends.items():
            if end < self.control_topics[_alias(name)].reached:  # another topic of this name
                self.control_topics[_alias(name)] = ControlTopic()
            spans[name] = self.control_topics[_alias(name)].reached, end
        newest: dict[tuple[str, bytes], Message] = {}
        for message in self._fetch(spans):
            name, key = str(message.topic()), message.key() or b""
            self.control_topics[_alias(name)].reached = int(message.offset() or 0) + 1
            if key in (PLAN_KEY, INTENT_KEY):
                newest[name, key] = message
        for name, (_, end) in spans.items():
            if name not in self._unread:  # a marker may be the last
                self.control_topics[_alias(name)].reached = max(end, self.control_topics[_alias(name)].reached)
        for (name, key), message in newest.items():
            _keep(self.control_topics[_alias(name)], key, message)

    def silence(self, alias: str) -> float:
        """Seconds since the last sign of life of the flow whose control topic has this alias. Raises ClusterAway.

        At the first look by what records say of their time. Clocks differ, so later a topic that grows is one, too; and
        a time in the future says that a clock is wrong, but not that nobody is there.
        """
        name = f"mirror-status.{alias}.internal"
        ends = self._ends([name] if name in self._topics else [])
        if name in ends:
            before, end = self._status_topics.get(name), ends[name]
            if before is None or end < before.end:
                ages = [_age(message) for message in self._fetch({name: (max(0, end - NEWEST), end)})]
                if name not in self._unread:
                    self._status_topics[name] = StatusTopic(end, time.monotonic() - min(ages, default=-LONG_AGO))
            elif end > before.end:
                self._status_topics[name] = StatusTopic(end, time.monotonic())
        if name not in self._unread:  # else what was known last; of whom nothing ever was counts
            alive_at = self._status_topics[name].alive_at if name in self._status_topics else LONG_AGO
            written = self.control_topics[alias].written if alias in self.control_topics else LONG_AGO
            self._silent[alias] = time.monotonic() - max(written, alive_at)
        return self._silent.get(alias, 0.0)

    def _list(self) -> None:
        found = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT))
        self.cluster_id = str(found.cluster_id or "")
        self._topics = frozenset(found.topics)
        self._unread = {name: reason for name, reason in self._unread.items() if name in {*self._topics, self._sample}}
        names = sorted(name for name in self._topics if CONTROL.fullmatch(name) and name != self._own)
        for name in names[TOPICS_MAX : TOPICS_MAX + 1]:
            self._unread[name] = f"there are {len(names)} control topics, of which {TOPICS_MAX} are read"
        self.control_topics = {
            alias: self.control_topics.get(alias) or ControlTopic() for alias in map(_alias, names[:TOPICS_MAX])
        }
        if self._sample not in self._topics and time.monotonic() >= self._again.get(self._sample, 0.0):
            self._look_for_sample()

    def _look_for_sample(self) -> None:
        """A topic that may not be described is not listed, as if it were not there; only who names it is refused."""
        asked = self._admin.describe_topics(TopicCollection([self._sample]), request_timeout=TIMEOUT)
        refused: Refusals = {}
        self._results(asked, refused)
        if self._sample in refused and refused[self._sample].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._give_up(self._sample, "Describe is not allowed")
        else:
            self._unread.pop(self._sample, None)
            self._again[self._sample] = time.monotonic() + TRY_AGAIN

    def _give_up(self, name: str, reason: str) -> None:
        self._unread[name] = reason
        self._again[name] = time.monotonic() + TRY_AGAIN

    def _ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Where each topic ends for a reader of what is committed; without those that can't be asked now."""
        found: dict[str, int] = {}
        now = time.monotonic()
        wanted, deadline = {name for name in topics if self._again.get(name, 0.0) <= now}, now + READ_TIMEOUT
        while wanted:
            failed = self._ask_ends(wanted, found)
            # A leader that is not there yet is waited for once.
            wanted = {name for name, error in failed.items() if error.code() in NOT_YET and name not in self._unread}
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
            except FuturesTimeout:
                failed[tp.topic] = KafkaError(KafkaError._TIMED_OUT)
        return failed

    def _fetch(self, spans: Mapping[str, tuple[int, int]]) -> Iterator[Message]:
        """Records of each topic from the first offset to before the second, and perhaps some that came since."""
        left = {name: end for name, (begin, end) in spans.items() if begin < end}
        if not left:
            return
        with closing(internal_consumer(self._cluster, self._group)) as consumer:
            consumer.assign([TopicPartition(name, 0, spans[name][0]) for name in left])
            deadline = time.monotonic() + READ_TIMEOUT
            while left and time.monotonic() < deadline:
                for message in consumer.consume(1000, 0.1):
                    name, error = str(message.topic()), message.error()
                    if error is None:
                        deadline = time.monotonic() + READ_TIMEOUT
                        yield message
                    elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        self._give_up(name, "Read is not allowed")
                    elif error.code() != KafkaError._PARTITION_EOF:
                        continue
                    if name in left and (error is not None or int(message.offset() or 0) + 1 >= left[name]):
                        del left[name]
        for name in left:
            self._give_up(name, "its records don't come")


def control_topic(alias: str) -> str:
    """Of flows whose source is called so."""
    return f"mirror-control.{alias}.internal"


def _alias(topic: str) -> str:
    found = CONTROL.fullmatch(topic)
    assert found
    return found[1]


def _keep(topic: ControlTopic, key: bytes, message: Message) -> None:
    topic.statements.pop(key, None)
    topic.doubts.pop(key, None)
    value = message.value()
    if value is None:  # taken back
        return
    topic.written = max(topic.written, time.monotonic() - _age(message))
    try:
        topic.statements[key] = Statement.decode(value)
    except ValueError as error:
        topic.doubts[key] = str(error)[:200]


def _age(message: Message) -> float:
    """Seconds; 0 of what is from the future."""
    timestamp: int = message.timestamp()[1]
    return max(0.0, time.time() - timestamp / 1000)
