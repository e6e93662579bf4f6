"""The bare loop: what one process moves with confluent-kafka and nothing else."""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, Producer, TopicPartition


def main(source: str, target: str, compression: str, share: str) -> None:
    """Copy [topic, partition, remote topic] each, until killed."""
    routes = {(topic, number): remote for topic, number, remote in json.loads(share)}
    consumer = Consumer(
        {
            "bootstrap.servers": source,
            "group.id": "limit",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in routes])
    producer = Producer(
        {
            "bootstrap.servers": target,
            "linger.ms": 5,
            "compression.type": compression,
            "queue.buffering.max.kbytes": 1048576,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    produce = producer.produce
    while True:
        for message in consumer.consume(5_000, 0.05):
            if message.error() is not None:
                continue
            partition = message.partition()
            remote = routes[message.topic(), partition]
            headers, timestamp = message.headers() or [], message.timestamp()[1]
            while True:
                try:
                    produce(remote, message.value(), message.key(), partition, None, None, timestamp, headers)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
