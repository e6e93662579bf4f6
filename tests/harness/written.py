"""Small batches that Java's client and librdkafka have written, recorded once, and the batches of any partition now.

`python -m tests.harness.written` starts a broker of this machine and records them again.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import IsolationLevel

from mirror.batches.headers import RecordBatch, walk
from mirror.demo.brokers import LocalCluster
from mirror.demo.kafka_jars import TOOLS, classpath
from mirror.spark.java import java
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import Limits, Session, TopicKey, Wanted, fetch
from tests.harness import load, oracle, topics

FILE = Path(__file__).parents[1] / "unit" / "batches" / "written.json"
COUNT = 60  # records of each client and kind
LIMITS = Limits(wait=0.5, most=2**20)


def written() -> dict[str, bytes]:
    """What was recorded, by client and kind: batches, as a log has them."""
    return {name: bytes.fromhex(data) for name, data in json.loads(FILE.read_text()).items()}


def java_produces(bootstrap: str, topic: str, count: int, codec: str = "none", size: int = 2000) -> None:
    """Java's client writes what it reads as lines, in batches of at most `size` bytes, or of one record."""
    lines = "".join(f"h:{n},i:\tk{n}\tv{n}{'.' * (n % 50)}\n" for n in range(count))
    command = [java(), "-cp", f"{classpath()}:{classpath(TOOLS)}", "org.apache.kafka.tools.ConsoleProducer"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
    command += ["--batch-size", str(size), "--reader-property", "parse.key=true"]
    command += ["--reader-property", "parse.headers=true"]
    subprocess.run(command, input=lines, text=True, check=True, capture_output=True, timeout=120)


def batches_of(bootstrap: str, topic: str) -> list[RecordBatch]:
    """All batches that partition 0 has now, markers and what was aborted among them."""
    end = oracle.ends(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)[0]

    async def read() -> list[RecordBatch]:
        cluster, found, at = Cluster(access({"bootstrap.servers": bootstrap})), list[RecordBatch](), 0
        try:
            leader = await cluster.leader(topic, 0)
            connection = await cluster.connection(leader.node)
            key = TopicKey(topic, cluster.topic_id(topic))
            while at < end:
                answer = await connection.ask(fetch({key: [Wanted(0, at, 2**20)]}, LIMITS, Session(), stable=False))
                found += walk(answer.partitions[0][1].records)
                at = found[-1].last + 1
            return found
        finally:
            cluster.close()

    return asyncio.run(read())


def main() -> None:
    """Record the batches again."""
    found = {}
    with tempfile.TemporaryDirectory() as directory, LocalCluster("written", Path(directory)) as cluster:
        for records in (1, 5):
            topic = topics.create(cluster.bootstrap, f"librdkafka-{records}", retention_ms=-1)
            some = [load.mixed(number) for number in range(COUNT)]
            load.produce(cluster.bootstrap, topic, some, linger_ms=100, batch_num_messages=records)
        for size in (1, 200):
            topic = topics.create(cluster.bootstrap, f"java-{size}", retention_ms=-1)
            java_produces(cluster.bootstrap, topic, COUNT, size=size)
        for topic in ("librdkafka-1", "librdkafka-5", "java-1", "java-200"):
            found[topic] = b"".join(bytes(each.data) for each in batches_of(cluster.bootstrap, topic)).hex()
    FILE.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
