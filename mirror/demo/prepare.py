"""Makes the archive of classes with which a local broker starts in half the time.

    python -m mirror.demo.prepare

makes it once for each Java and Kafka on a machine, which takes a quarter of a minute and 50 MB. A broker uses it if it
exists, and then needs two seconds of CPU less.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mirror.demo.brokers import LocalCluster
from mirror.demo.jvm import SHORT_LIVED, broker_archive
from mirror.errors import SetupError
from mirror.spark import class_archive
from mirror.spark.java import cache_dir

REHEARSAL_SECONDS, DUMP_SECONDS = 30.0, 60.0


def prepare() -> None:
    """Make the archive if there is none. Raises SetupError if Java is missing or the broker does not start."""
    archive = broker_archive()
    if archive.is_file():
        return
    sys.stderr.write(f"preparing the start of local brokers in {archive}, once: about a quarter of a minute\n")
    with tempfile.TemporaryDirectory(prefix="rehearsal-", dir=cache_dir()) as directory:
        part = Path(directory) / archive.name
        options = (*SHORT_LIVED, *class_archive.writing(part))
        with LocalCluster("rehearsal", Path(directory), java_options=options) as cluster:
            _rehearse(cluster.bootstrap)
            (broker,) = cluster.brokers
            assert broker.process is not None
            broker.process.send_signal(signal.SIGTERM)
            broker.process.wait(DUMP_SECONDS)
        if not part.is_file():
            raise SetupError(f"Java has made no {archive}; brokers run without it, but start slower")
        part.rename(archive)


def _rehearse(bootstrap: str) -> None:
    """Use what the demo uses: one transaction with a record and a position, and a consumer that reads both."""
    target = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(target)
    admin.create_topics([NewTopic("rehearsal", 1)])["rehearsal"].result(REHEARSAL_SECONDS)
    consumer = Consumer({**target, "group.id": "rehearsal", "isolation.level": "read_committed"})
    producer = Producer({**target, "transactional.id": "rehearsal"})
    producer.init_transactions(REHEARSAL_SECONDS)
    producer.begin_transaction()
    producer.produce("rehearsal", b"value", b"key", 0)
    position = [TopicPartition("rehearsal", 0, 1)]
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), REHEARSAL_SECONDS)
    producer.commit_transaction(REHEARSAL_SECONDS)
    consumer.assign([TopicPartition("rehearsal", 0, 0)])
    consumer.poll(REHEARSAL_SECONDS)
    consumer.committed(position, REHEARSAL_SECONDS)
    consumer.close()


if __name__ == "__main__":
    try:
        prepare()
    except SetupError as error:
        sys.exit(str(error))
