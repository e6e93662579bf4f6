"""The demo's load: a writer of records on one cluster, and a reader that counts them on the other."""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.errors import MirrorError

TOPICS = {"clicks": 6, "orders": 4, "payments": 2}  # partitions
SHARES = {"clicks": 5, "orders": 3, "payments": 2}  # of every ten records
RATE = 2_000  # records per second
BURST = 40_000  # records
TICK = 0.1  # seconds
ABORTED = 6  # one transaction in so many is aborted
TIMEOUT = 30.0  # seconds

# Limited, so that a demo that is kept running does not fill the disk.
TOPIC_CONFIG = {"retention.bytes": str(64 * 2**20), "segment.bytes": str(16 * 2**20)}

QUIET = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1000}
SEQUENCE = "sequence"  # the header with a number that grows in every partition


def create_topics(bootstrap: str) -> None:
    """Create the topics of the demo. Raises MirrorError."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, partitions, config=TOPIC_CONFIG) for name, partitions in TOPICS.items()]
    try:
        for future in admin.create_topics(wanted, request_timeout=TIMEOUT).values():
            future.result()
    except KafkaException as error:
        raise MirrorError(f"topics can't be created on primary: {error.args[0].str()}") from error


class Writer(threading.Thread):
    """Writes records at a steady rate: half of them one by one, half in transactions of which some are aborted.

    Keys, values and headers are null now and then. It is one thread, and flushes one of its two producers before it
    uses the other, so the sequence numbers grow in every partition.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True, name="writer")
        self.written: Counter[str] = Counter()  # by topic, as a read_committed consumer will see them
        self.aborted = 0  # records that nobody must see
        self.failure: MirrorError | None = None
        self._stopping = threading.Event()
        self._burst = threading.Event()
        self._random = random.Random(1)
        self._next = 0
        common = {**QUIET, "bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        self._plain = Producer(common)
        self._transactional = Producer({**common, "transactional.id": "demo"})

    def run(self) -> None:
        """Write until `stop` is called."""
        try:
            self._transactional.init_transactions(TIMEOUT)
            begun, count, transactions = time.monotonic(), 0, 0
            while not self._stopping.wait(max(0.0, begun + count / RATE - time.monotonic())):
                transactions += 1
                self._write(int(RATE * TICK / 2))
                self._transact(int(RATE * TICK / 2), abort=transactions % ABORTED == 0)
                count += int(RATE * TICK)
                if self._burst.is_set():
                    self._burst.clear()
                    self._write(BURST)
        except KafkaException as error:
            self.failure = MirrorError(f"records can't be written to primary: {error.args[0].str()}")

    def burst(self) -> None:
        """Write many records at once."""
        self._burst.set()

    def stop(self) -> None:
        """Finish the present records and transaction, and stop."""
        self._stopping.set()
        if self.is_alive():
            self.join(TIMEOUT)

    def _write(self, count: int) -> None:
        written = self._produce(self._plain, count)
        if self._plain.flush(TIMEOUT):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.written.update(written)

    def _transact(self, count: int, abort: bool) -> None:
        self._transactional.begin_transaction()
        written = self._produce(self._transactional, count)
        if abort:
            self._transactional.flush(TIMEOUT)  # otherwise the records would not even reach the cluster
            self._transactional.abort_transaction(TIMEOUT)
            self.aborted += count
        else:
            self._transactional.commit_transaction(TIMEOUT)
            self.written.update(written)

    def _produce(self, producer: Producer, count: int) -> Counter[str]:
        topics = self._random.choices(list(SHARES), list(SHARES.values()), k=count)
        for topic in topics:
            self._next += 1
            key, value = self._key(topic), self._value(topic)
            partition = zlib.crc32(key or b"%d" % self._next) % TOPICS[topic]
            headers = [(SEQUENCE, b"%d" % self._next), ("origin", self._random.choice((b"web", b"app", b"", None)))]
            now = int(time.time() * 1000)
            try:
                producer.produce(topic, value, key, partition, timestamp=now, headers=headers)
            except BufferError:  # the queue is full
                producer.flush(TIMEOUT)
                producer.produce(topic, value, key, partition, timestamp=now, headers=headers)
        return Counter(topics)

    def _key(self, topic: str) -> bytes | None:
        if topic == "clicks" and self._random.random() < 0.5:
            return None
        return b"customer-%d" % self._random.randrange(1000)

    def _value(self, topic: str) -> bytes | None:
        if self._random.random() < 0.02:
            return None
        text = f'{{"id": {self._next}, "topic": "{topic}", "amount": {self._random.random() * 100:.2f}, "note": "'
        return text.encode() + b"x" * self._random.randrange(150) + b'"}'


class Reader(threading.Thread):
    """Counts the records that a read_committed consumer sees on backup."""

    def __init__(self, bootstrap: str, remotes: dict[str, str]) -> None:
        super().__init__(daemon=True, name="reader")
        self.seen = dict.fromkeys(remotes, 0)
        self._topics = {remote: topic for topic, remote in remotes.items()}
        self._stopping = threading.Event()
        fixed = {"group.id": "demo", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, **fixed})

    def run(self) -> None:
        """Count until `stop` is called. After an error records are missing from the counts."""
        partitions = self._await_topics()
        self._consumer.assign(partitions)
        while not self._stopping.is_set():
            for message in self._consumer.consume(5_000, 0.2):
                if message.error() is None:
                    self.seen[self._topics[message.topic()]] += 1
        self._consumer.close()

    def stop(self) -> None:
        """Stop counting."""
        self._stopping.set()
        if self.is_alive():
            self.join(TIMEOUT)

    def _await_topics(self) -> list[TopicPartition]:
        """Wait until the service has created the remote topics, and return their partitions."""
        while not self._stopping.wait(0.5):
            try:
                topics = self._consumer.list_topics(timeout=5).topics
            except KafkaException:
                continue
            if self._topics.keys() <= topics.keys():
                return [TopicPartition(name, number, 0) for name in self._topics for number in topics[name].partitions]
        return []
