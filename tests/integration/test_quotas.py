"""Quotas: a cluster that throttles slows copying down, says so, and never stops it. One flow for each data path."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.harness import configuration, topics
from tests.harness.configuration import DATA_PATHS
from tests.harness.load import Made, sized
from tests.harness.pair import Pair
from tests.harness.service import RETRYING, TAKES_RECORDS, Service
from tests.harness.shared_services import Addresses
from tests.harness.together import together

pytestmark = pytest.mark.slow

CLIENT = "mirror"  # the default client.id
RECORDS = 8_000  # of a kilobyte
BATCH = 64_000  # bytes. It has too many records to be merged with others, and the quota takes it within a transaction


@dataclass(frozen=True)
class Backlog:
    """A flow, and its topic with records that wait."""

    pair: Pair
    topic: str

    def fill(self) -> None:
        self.pair.produce(self.topic, *map(sized(1_000), range(RECORDS)), batch_size=BATCH)

    def copied(self, service: Service) -> float:
        return service.metric("mirror_source_records_total", topic=self.topic)

    def is_throttled(self, service: Service, by: str) -> bool:
        return service.metric("mirror_throttled_partitions", source=self.pair.alias, by=by) == 1


def test_quotas(brokers: Addresses, prefix: str, tmp_path: Path) -> None:
    """Both flows of a service are throttled at the same time."""
    plain = Pair(brokers.source, brokers.target, f"q{prefix[-7:-1]}", prefix)
    target, source = ([plain.other(name).by(path) for path in DATA_PATHS] for name in ("target", "source"))
    together(
        partial(a_target_too_slow_for_a_whole_batch_gets_smaller_ones, target, tmp_path),
        partial(a_source_that_throttles_is_named, source, tmp_path),
    )


def a_target_too_slow_for_a_whole_batch_gets_smaller_ones(pairs: list[Pair], directory: Path) -> None:
    backlogs = [Backlog(pair, pair.topic("backlog")) for pair in pairs]
    settings = configuration.together(*(pair.settings({"transaction_timeout": "6s"}) for pair in pairs))
    with Service(settings, directory) as service:
        for each in backlogs:
            each.pair.produce(each.topic, Made(None, b"first"))
            each.pair.await_same(each.topic)
        for each in backlogs:  # one after the other: they have one client.id, and so one quota
            with topics.throttled(each.pair.target, CLIENT, producer_byte_rate=100_000):
                is_slowed_down(each, service)
            each.pair.await_same(each.topic)
            each.pair.assert_path(service)
        service.wait_for("no quota", lambda: not any(each.is_throttled(service, "target") for each in backlogs))
        assert not service.find(TAKES_RECORDS, flow=pairs[-1].flow), "whole batches are slowed down, and go on"
    for each in backlogs:
        each.pair.assert_settled(each.topic)


def is_slowed_down(backlog: Backlog, service: Service) -> None:
    """Wait until all records together were too much for a transaction, which is told, and fewer have got through."""
    backlog.fill()
    service.wait_for_event(RETRYING, topic=backlog.topic)
    service.wait_for("throttled", lambda: backlog.is_throttled(service, "target"))
    assert "slowed down by a quota of backup" in service.get("/status")[1]
    service.wait_for("some are copied", lambda: backlog.copied(service) > 1)


def a_source_that_throttles_is_named(pairs: list[Pair], directory: Path) -> None:
    backlogs = [Backlog(pair, pair.topic("backlog")) for pair in pairs]
    for each in backlogs:
        each.fill()
    settings = configuration.together(*(pair.settings() for pair in pairs))
    settings["clusters"]["backup"]["client.id"] = f"{CLIENT}-there"  # the other service's quota does not count here
    with contextlib.ExitStack() as quotas:
        for pair in pairs:
            client = f"{CLIENT}-{pair.alias}"  # no quota is the other flow's
            settings["clusters"][pair.alias]["client.id"] = client
            quotas.enter_context(topics.throttled(pair.source, client, consumer_byte_rate=20_000))
        with Service(settings, directory) as service:
            service.wait_for("throttled", lambda: all(each.is_throttled(service, "source") for each in backlogs))
            for pair in pairs:
                assert f"slowed down by a quota of {pair.alias}" in service.get("/status")[1]
            service.wait_for("ready", lambda: service.get("/readyz")[0] == 200)
            quotas.close()
            for each in backlogs:
                each.pair.await_same(each.topic)
                each.pair.assert_path(service)
    for each in backlogs:
        each.pair.assert_settled(each.topic)
