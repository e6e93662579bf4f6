"""The task of a slice. Integration tests run it; here is what comes before it has the slice."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.errors import TransformUnusable
from mirror.settings import Flow, TopicSettings
from mirror.task import transforming
from mirror.task.task import SliceTask
from tests.unit.test_naming import flow

OWN = {
    "t": TopicSettings(None, None, None, None, None, "shop.own"),
    "u": TopicSettings(None, None, None, None, None, "none"),
}


def bare(of: Flow, calls: list[str]) -> SliceTask:
    """A task without clients, whose plan follower ends at once."""
    done = threading.Event()
    done.set()
    task: Any = SliceTask.__new__(SliceTask)
    task._flow = of
    task._control = SimpleNamespace(plan=object(), read_to_end=lambda: calls.append("read"))
    task._plan = SimpleNamespace(is_current=True, clusters=())
    task._claimant = SimpleNamespace(claim=lambda: calls.append("claim"))
    task._threads = SimpleNamespace(ensure_threads=lambda slow: None)
    task._plan_follower = SimpleNamespace(start=lambda: calls.append("follow"), done=done, failure=None)
    task._fetcher = SimpleNamespace(held={})
    task._paths = SimpleNamespace(copiers=[])
    result: SliceTask = task
    return result


@pytest.mark.parametrize("usable", [True, False])
def test_transforms_are_imported_before_the_slice_is_claimed(usable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that waits for a slow import could count as hung. Until the claim others may copy the partitions."""
    calls: list[str] = []

    def loaded(path: str) -> None:
        calls.append(path)
        if not usable:
            raise TransformUnusable(path)

    monkeypatch.setattr(transforming, "load", loaded)
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)
    monkeypatch.setattr(SliceTask, "_end", lambda _: None)
    copies = bare(flow(transform="shop.masked", topic_settings=OWN), calls)
    assert copies.run() == []
    assert calls == ["shop.masked", "shop.own", "read", "claim", "read", "follow"]
