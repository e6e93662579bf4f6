"""The listing of groups tells whether all brokers have answered."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from mirror.errors import ClusterAway
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Cluster

AWAY = KafkaException(KafkaError(KafkaError._TIMED_OUT))


def listing(monkeypatch: pytest.MonkeyPatch, names: list[str], errors: list[KafkaException]) -> ClusterAdmin:
    valid = [SimpleNamespace(group_id=name, state=ConsumerGroupState.STABLE) for name in names]
    answer: Future[Any] = Future()
    answer.set_result(SimpleNamespace(valid=valid, errors=errors))
    admin = SimpleNamespace(list_consumer_groups=lambda **_: answer)
    monkeypatch.setattr(ClusterAdmin, "_admin", admin)
    return ClusterAdmin(Cluster("primary", {"bootstrap.servers": "nowhere:1"}, {}, {}))


def test_whether_all_brokers_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listing(monkeypatch, ["b", "a"], []).listed_groups() == (["a", "b"], True)
    partial = listing(monkeypatch, ["b", "a"], [AWAY])
    assert partial.listed_groups() == (["a", "b"], False)
    assert partial.groups() == ["a", "b"] and partial.active_groups() == {"a", "b"}


def test_without_any_group_an_error_says_that_the_cluster_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterAway):
        listing(monkeypatch, [], [AWAY]).listed_groups()
