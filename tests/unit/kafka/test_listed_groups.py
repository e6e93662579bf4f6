"""The listing of groups tells whether all brokers have answered."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException

from mirror.errors import ClusterAway
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Cluster

AWAY = KafkaException(KafkaError(KafkaError._TIMED_OUT))


def listing(monkeypatch: pytest.MonkeyPatch, names: list[str], errors: list[KafkaException]) -> ClusterAdmin:
    return answering(monkeypatch, [described(name, ConsumerGroupState.STABLE) for name in names], errors)


def described(
    name: str, state: ConsumerGroupState, simple: bool = False, kind: ConsumerGroupType = ConsumerGroupType.CLASSIC
) -> SimpleNamespace:
    return SimpleNamespace(group_id=name, state=state, is_simple_consumer_group=simple, type=kind)


def answering(
    monkeypatch: pytest.MonkeyPatch, valid: list[SimpleNamespace], errors: list[KafkaException]
) -> ClusterAdmin:
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


def test_which_groups_had_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that a broker does not tell of may be one of them, unless all brokers have told theirs."""
    stable, empty, unknown = (getattr(ConsumerGroupState, name) for name in ("STABLE", "EMPTY", "UNKNOWN"))
    valid = [
        described("active", stable),
        described("emptied", empty),
        described("of an old broker", unknown, kind=ConsumerGroupType.UNKNOWN),
        described("never had any", empty, simple=True),
        described("of KIP-848", empty, kind=ConsumerGroupType.CONSUMER),
    ]
    found = answering(monkeypatch, valid, []).group_states()
    names = {each.group_id for each in valid}
    assert found.active == {"active"} and found.emptied == {"emptied", "of an old broker"}
    assert {name for name in (*names, "absent") if found.may_be_emptied(name)} == found.emptied
    found = answering(monkeypatch, valid, [AWAY]).group_states()
    assert {name for name in (*names, "absent") if found.may_be_emptied(name)} == {*found.emptied, "absent"}
