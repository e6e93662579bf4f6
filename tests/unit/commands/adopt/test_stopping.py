"""Which transactional ids MirrorMaker's tasks have, as far as the target tells."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mirror.commands.adopt import stopping
from mirror.errors import MirrorError, Unsupported
from tests.unit.test_naming import flow

TASK = "primary-mm2-MirrorSourceConnector-0"


def told(monkeypatch: pytest.MonkeyPatch, listed: Iterable[str] | None, hidden: bool = False) -> list[str]:
    """What the target lists, and whether there may be ids that it hides; returns those that it is asked about."""
    asked = list[str]()

    def ids(_: object) -> set[str]:
        if listed is None:
            raise Unsupported("brokers before Kafka 3.0 do not list transactions")
        return set(listed)

    def is_hidden(_: object, name: str) -> bool:
        asked.append(name)
        return hidden

    monkeypatch.setattr(stopping, "transactional_ids", ids)
    monkeypatch.setattr(stopping, "is_hidden", is_hidden)
    return asked


def found(tasks: int | None = None) -> list[str]:
    return stopping.task_ids(flow(), "primary-mm2", "MirrorSourceConnector", tasks).all


def test_those_that_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, [TASK, "other"], hidden=True)
    assert found() == [TASK] and not asked


def test_none_is_listed_and_none_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = told(monkeypatch, ["other"])
    assert found() == [] and asked == [TASK]


def test_none_is_listed_because_we_may_not_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, ["other"], hidden=True)
    with pytest.raises(MirrorError, match=r"may Describe.*give the number of its tasks with --tasks"):
        found()
    assert found(tasks=0) == [] and found(tasks=1) == [TASK]


def test_old_brokers_list_none(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, None)
    with pytest.raises(MirrorError, match="--tasks"):
        found()
    assert found(tasks=1) == [TASK]
