"""Share groups and streams groups are named with the reason why they are not synced."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from mirror.errors import Unavailable, Unsupported, WireError
from mirror.groups import other_groups as module
from mirror.groups.other_groups import REASONS, other_groups
from mirror.wire.groups import Listed

Answer = Listed | WireError | None  # None: no answer


class Client:
    """Two brokers that answer, fail or keep silent."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = dict(enumerate(answers))

    async def brokers(self) -> Mapping[int, object]:
        return self.answers

    async def connection(self, node: int) -> Any:
        answer = self.answers[node]

        class Connection:
            async def ask(self, _: object) -> Listed:
                if answer is None:
                    await asyncio.sleep(60)
                if isinstance(answer, WireError):
                    raise answer
                return cast(Listed, answer)

        return Connection()


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ((Listed(0, {"a": "share"}), Listed(0, {"b": "streams"})), {"a": "share", "b": "streams"}),
        ((Listed(0, {"a": "share", "c": "consumer", "d": ""}), Unavailable("away")), {"a": "share"}),
        ((Unsupported("before Kafka 3.8"), Listed(15, {})), {}),
        ((Listed(0, {"a": "share"}), None), {"a": "share"}),
    ],
)
def test_what_the_brokers_say(
    answers: tuple[Answer, ...], found: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    said = asyncio.run(other_groups(cast(Any, Client(*answers))))
    assert said == {name: REASONS[kind] for name, kind in found.items()}
