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

from mirror.batches.codecs import GZIP, LZ4, SNAPPY, ZSTD
from mirror.batches.headers import RecordBatch, walk
from mirror.batches.records import Content
from mirror.demo.brokers import LocalCluster
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import Limits, Session, TopicKey, Wanted, fetch
from tests.harness import kafka_tools, load, oracle, topics
from tests.harness.load import Made

FILE = Path(__file__).parents[1] / "unit" / "batches" / "written.json"
COUNT = 60  # small records of each client and kind
LARGE = 70_000  # bytes of one more record: snappy and lz4 have several blocks for it
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
UNCOMPRESSED = ("java-1", "java-200", "librdkafka-1", "librdkafka-5")  # most bytes, or records, in a batch
COMPRESSED = {f"{client}-{name}": codec for client in ("java", "librdkafka") for name, codec in CODECS.items()}
IN_COMPRESSED = {"java": 600, "librdkafka": 15}  # most bytes, or records, in a batch of theirs
LIMITS = Limits(wait=0.5, most=2**20)


def written() -> dict[str, bytes]:
    """What was recorded, by client and kind: batches, as a log has them from offset 0 on."""
    return {name: bytes.fromhex(data) for name, data in json.loads(FILE.read_text()).items()}


def given(name: str) -> list[Content]:
    """The records that the client was given to write."""
    return [Content(each.key, each.value, [(n.encode(), value) for n, value in each.headers]) for each in _made(name)]


def _made(name: str) -> list[Made]:
    make = dotted if name.startswith("java") else load.mixed
    large = [Made(b"large", b"." * LARGE, [("h", b"large")])] if name in COMPRESSED else []
    return [make(number) for number in range(COUNT)] + large


def dotted(number: int) -> Made:
    """A record that Java's client can read as a line."""
    return Made(b"k%d" % number, b"v%d" % number + b"." * (number % 50), [("h", b"%d" % number), ("i", b"")])


def java_produces(bootstrap: str, topic: str, records: list[Made], codec: str = "none", size: int = 2000) -> None:
    """Java's client writes what it reads as lines, in batches of at most `size` bytes, or of one record."""
    lines = b"".join(map(_line, records))
    command = kafka_tools.command("org.apache.kafka.tools.ConsoleProducer")
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
    command += ["--batch-size", str(size), "--reader-property", "parse.key=true"]
    command += ["--reader-property", "parse.headers=true"]
    subprocess.run(command, input=lines, check=True, capture_output=True, timeout=120)


def _line(made: Made) -> bytes:
    headers = b",".join(name.encode() + b":" + (value or b"") for name, value in made.headers)
    return b"\t".join((headers, made.key or b"", made.value or b"")) + b"\n"


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


def _write(bootstrap: str, name: str) -> None:
    """Have the client write a recording's records to the topic of that name."""
    client, kind = name.split("-")
    codec, most = (kind, IN_COMPRESSED[client]) if name in COMPRESSED else ("none", int(kind))
    topics.create(bootstrap, name, retention_ms=-1)
    made = _made(name)
    if client == "java":
        java_produces(bootstrap, name, made, codec, most)
    else:
        load.produce(bootstrap, name, made, linger_ms=100, batch_num_messages=most, compression_type=codec)


def main() -> None:
    """Record the batches again."""
    found = {}
    with tempfile.TemporaryDirectory() as directory, LocalCluster("written", Path(directory)) as cluster:
        for name in (*UNCOMPRESSED, *COMPRESSED):
            _write(cluster.bootstrap, name)
            found[name] = b"".join(bytes(each.data) for each in batches_of(cluster.bootstrap, name)).hex()
    FILE.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
