"""Which topics are lost: a broker that does not know it says of none. test_secured.py asks real brokers."""

from __future__ import annotations

import pytest

from mirror.errors import ClusterAway
from mirror.groups.lost_topics import lost_topics
from mirror.settings import Cluster
from tests.harness.fake_broker import METADATA, FakeBroker

IDS = ["AAAAAAAAAAAAAAAAAAAAAQ"]


def test_where_nobody_tells_no_topic_is_lost() -> None:
    with FakeBroker() as broker:  # of Kafka 2.3, which does not know of ids
        assert lost_topics(Cluster("backup", broker.properties, {}, {}), IDS) == set()
        assert not broker.count(METADATA)
        only_librdkafka = {**broker.properties, "broker.address.ttl": "1000"}
        assert lost_topics(Cluster("backup", only_librdkafka, {}, {}), IDS) == set()


def test_a_cluster_that_is_away_is_asked_only_if_there_is_something_to_ask() -> None:
    away = Cluster("backup", {"bootstrap.servers": "127.0.0.1:1"}, {}, {})
    assert lost_topics(away, ()) == set()
    with pytest.raises(ClusterAway, match="topics can't be looked for by their ids"):
        lost_topics(away, IDS)
