"""The producer for mirror's own topics, while no other client can be made."""

from __future__ import annotations

import pytest

from mirror.errors import ClusterAway
from mirror.kafka import own_topic_producer
from mirror.kafka.own_topic_producer import OwnTopicProducer
from mirror.settings import Cluster

CLUSTER = Cluster("backup", {"bootstrap.servers": "127.0.0.1:1"}, {}, {})


def test_without_a_token_the_old_client_goes_on_until_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that is lost does no harm. So it must not end the task that wrote it."""
    producer = OwnTopicProducer(CLUSTER)
    first = producer._client
    producer._failed = True

    def refused(_: Cluster) -> object:
        raise ClusterAway("backup", "no token")

    monkeypatch.setattr(own_topic_producer, "internal_producer", refused)
    producer.produce("status", b"value", b"key")
    assert producer._client is first and len(first) > 0, "the record waits; errors of the connection count, too"
    monkeypatch.undo()
    producer.produce("status", b"value", b"key")
    assert producer._client is not first
    producer.purge()
