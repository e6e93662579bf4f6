"""When a remote topic counts as gone: a broker that has just started knows of no topics yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError

from mirror.control.next_plan import retire
from mirror.control.plan import Plan
from mirror.model import Topic
from mirror.settings import Flow
from mirror.target.remote_topics import RemoteTopics, RemoteTopicsMonitor
from tests.unit.control.test_control_reader import flow  # noqa: F401

COPIED, RETIRED = Topic("primary.a", "a", 1, 1, "copy-a"), Topic("primary.b", "b", 1, 1, "copy-b")
PLAN = Plan("us", 7, {"a": COPIED}, (), retired={"b": RETIRED})


class Target:
    """The target as the broker that is asked sees it; of the others it says so, or with `error` something else."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.error = KafkaError.UNKNOWN_TOPIC_OR_PART

    def topic_ids(self, names: Iterable[str], refused: dict[str, KafkaError]) -> dict[str, str]:
        refused |= {name: KafkaError(self.error) for name in names if name not in self.ids}
        return {name: self.ids[name] for name in names if name in self.ids}


def test_a_retired_topic_is_forgotten_only_when_two_looks_miss_it(flow: Flow) -> None:  # noqa: F811
    """Else the position would expire, and the topic would be blocked when it comes back."""
    target: Any = Target()
    monitor = RemoteTopicsMonitor(flow, target)

    def look(**ids: str) -> RemoteTopics:
        target.ids = {f"primary.{name}": topic_id for name, topic_id in ids.items()}
        found = monitor.look(target.ids, PLAN.topics, PLAN.retired.values(), lambda _: False)
        assert not found.lost
        return found

    def retired(found: RemoteTopics) -> bool:
        return retire(PLAN.topics, PLAN, found.ids) == {"b": RETIRED}

    missed = look(a="copy-a")
    assert retired(missed) and missed.doubtful == {"primary.b"}
    assert retired(look(a="copy-a", b="copy-b"))
    assert retired(look(a="copy-a", b="another")), "perhaps that broker knows an older one"
    assert not retired(look(a="copy-a", b="another"))
    target.error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert all(retired(look(a="copy-a")) for _ in range(3)), "it may be there"
    target.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert [retired(look(a="copy-a")) for _ in range(3)] == [True, False, False]


def test_a_copied_topic_is_lost_when_two_looks_miss_it(flow: Flow) -> None:  # noqa: F811
    target: Any = Target()
    monitor = RemoteTopicsMonitor(flow, target)
    found = [monitor.look((), PLAN.topics, (), lambda _: False) for _ in range(2)]
    assert [(each.ids, each.lost, each.doubtful) for each in found] == [
        ({"primary.a": "copy-a"}, frozenset(), {"primary.a"}),
        ({}, {"primary.a"}, frozenset()),
    ]
