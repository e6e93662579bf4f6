"""Passwords and tokens that change while connections are open: the next login on them takes what holds by then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Self

import pytest

from mirror.wire import pool
from mirror.wire.access import Access, Address, access
from mirror.wire.pool import Pool

BEFORE = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "a"}
AFTER = {**BEFORE, "sasl.password": "b"}


class Open:
    """A connection that is opened when it is told to."""

    closed, pending, retired, used_at, opened_at = None, 0, False, 1e9, 0.0
    may_open: asyncio.Event

    def __init__(self, to: Access) -> None:
        self.access = to

    @classmethod
    async def open(cls, _: Address, to: Access) -> Self:
        found = cls(to)
        await cls.may_open.wait()
        return found


async def password_of_the_next_login(renewed: Mapping[str, str], meanwhile: bool) -> str:
    """On a connection that was opened with the password before; `meanwhile`: while it was being opened."""
    Open.may_open = asyncio.Event()
    made = Pool(("a", 1), access(BEFORE))
    opening = asyncio.create_task(made.connections("fetch", 1).connection())
    await asyncio.sleep(0)
    if meanwhile:
        await asyncio.sleep(0)
        made.renew(access(renewed))
    Open.may_open.set()
    found = await opening
    if not meanwhile:
        made.renew(access(renewed))
    assert found.access.login
    return found.access.login.password


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize(
    ("renewed", "password"),
    [
        (AFTER, "b"),
        ({**AFTER, "sasl.username": "other"}, "a"),  # brokers refuse it on this connection (KIP-368)
        ({**AFTER, "sasl.mechanisms": "SCRAM-SHA-256"}, "a"),
        ({}, "a"),
    ],
)
def test_the_next_login_on_an_open_connection_takes_the_new_password(
    renewed: Mapping[str, str], password: str, meanwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "Connection", Open)
    assert asyncio.run(password_of_the_next_login(renewed, meanwhile)) == password
