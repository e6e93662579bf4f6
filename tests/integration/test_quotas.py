"""Quotas: a cluster that throttles slows copying down, says so, and never stops it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.harness import topics
from tests.harness.load import sized
from tests.harness.pair import Pair
from tests.harness.service import RETRYING, Service
from tests.harness.together import together

pytestmark = pytest.mark.slow

CLIENT = "mirror"  # the default client.id
RECORDS = 8_000  # of a kilobyte


def copied(service: Service, topic: str) -> float:
    return service.metric("mirror_source_records_total", topic=topic)


def throttled(service: Service, by: str) -> bool:
    return service.metric("mirror_throttled_partitions", by=by) == 1


def test_quotas(pair: Pair, tmp_path: Path) -> None:
    together(
        partial(a_target_too_slow_for_a_whole_batch_gets_smaller_ones, pair.other("target"), tmp_path),
        partial(a_source_that_throttles_is_named, pair.other("source"), tmp_path),
    )


def a_target_too_slow_for_a_whole_batch_gets_smaller_ones(pair: Pair, directory: Path) -> None:
    topic = pair.topic("backlog")
    pair.produce(topic, *map(sized(1_000), range(RECORDS)))
    with pair.service(directory, {"transaction_timeout": "6s"}) as service:
        with topics.throttled(pair.target, CLIENT, producer_byte_rate=100_000):
            service.wait_for("all seen", lambda: service.metric("mirror_source_topic_partition_lag") == RECORDS)
            service.wait_for_event(
                RETRYING, topic=topic
            )  # all of them in one transaction would take more than a minute
            service.wait_for("throttled", lambda: throttled(service, "target"))
            assert "slowed down by a quota of backup" in service.get("/status")[1]
            service.wait_for("some are copied", lambda: 0 < copied(service, topic) < RECORDS)
        service.wait_for("all are copied", lambda: copied(service, topic) == RECORDS)
        service.wait_for("not throttled any more", lambda: not throttled(service, "target"))
    pair.assert_settled(topic)


def a_source_that_throttles_is_named(pair: Pair, directory: Path) -> None:
    topic = pair.topic("backlog")
    pair.produce(topic, *map(sized(1_000), range(RECORDS)))
    settings = pair.settings()
    client = f"{CLIENT}-{pair.alias}"  # the quota is not the other flow's
    settings["clusters"][pair.alias]["client.id"] = client
    with Service(settings, directory) as service:
        with topics.throttled(pair.source, client, consumer_byte_rate=20_000):
            service.wait_for("throttled", lambda: throttled(service, "source"))
            assert f"slowed down by a quota of {pair.alias}" in service.get("/status")[1]
            assert service.get("/readyz")[0] == 200
        pair.await_same(topic)
    pair.assert_settled(topic)
