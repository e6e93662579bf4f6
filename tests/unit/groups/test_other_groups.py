"""Share groups and streams groups are named with the reason why they are not synced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from mirror.errors import Unavailable, Unsupported, WireError
from mirror.groups import other_groups as module
from mirror.groups.other_groups import REASONS, other_groups
from mirror.wire.groups import ListedGroups

Answer = ListedGroups | WireError | None  # None: no answer


class Client:
    """Two brokers that answer, fail or keep silent."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = dict(enumerate(answers))

    async def brokers(self) -> Mapping[int, object]:
        return self.answers

    async def connection(self, node: int) -> Any:
        answer = self.answers[node]

        class Connection:
            async def ask(self, _: object) -> ListedGroups:
                if answer is None:
                    await asyncio.sleep(60)
                if isinstance(answer, WireError):
                    raise answer
                return cast(ListedGroups, answer)

        return Connection()


@pytest.mark.parametrize(
    ("answers", "found", "are_all"),
    [
        ((ListedGroups(0, {"a": "share"}), ListedGroups(0, {"b": "streams"})), {"a": "share", "b": "streams"}, True),
        ((ListedGroups(0, {"a": "share", "c": "consumer", "d": ""}), Unavailable("away")), {"a": "share"}, False),
        ((Unsupported("before Kafka 3.8"), ListedGroups(0, {})), {}, True),
        ((ListedGroups(0, {"a": "share"}), ListedGroups(14, {})), {"a": "share"}, False),
        ((ListedGroups(0, {"a": "share"}), None), {"a": "share"}, False),
    ],
)
def test_what_the_brokers_say(
    answers: tuple[Answer, ...], found: Mapping[str, str], are_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    said = asyncio.run(other_groups(cast(Any, Client(*answers))))
    assert said == ({name: REASONS[kind] for name, kind in found.items()}, are_all)


def test_without_the_list_of_brokers_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    async def silent() -> Mapping[int, object]:
        await asyncio.sleep(60)
        return {}

    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    monkeypatch.setattr(client, "brokers", silent)
    assert asyncio.run(other_groups(cast(Any, client))) == ({}, False)
