"""A user's token provider: what it may return, how often it is asked, and that nothing of it is told."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from mirror import token_provider
from mirror.errors import ClusterAway, TokenProviderUnusable, Unavailable, Unsupported
from mirror.kafka import clients
from mirror.settings import TOKEN_PROVIDER, Cluster
from mirror.token_provider import TokenProvider, load
from mirror.wire.access import access
from tests.harness.waiting import PATIENCE, until

SECRET = "hunter2"
OAUTH = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.config": "the config",
}


class Lazy(dict[str, str]):
    """Finds out what it has only when it is asked."""

    def items(self) -> Any:
        raise RuntimeError(SECRET)

    def __bool__(self) -> bool:
        return True


def provider(result: Any) -> TokenProvider:
    return TokenProvider("shop.tokens.token", lambda _: result)


def later(seconds: float = 86_400) -> float:
    return time.time() + seconds


@pytest.mark.parametrize("more", [(), ("me",), ("me", {"logicalCluster": "lkc-1"}), (None, None)])
def test_what_oauth_cb_returns_is_a_token(more: tuple[Any, ...]) -> None:
    expires_at = later()
    found = provider(("value", expires_at, *more))("")
    assert (found.value, found.expires_at) == ("value", expires_at)
    assert found.principal == ("me" if "me" in more else "")
    assert dict(found.extensions) == (more[1] if len(more) == 2 and more[1] else {})
    assert "value" not in repr(found)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "no tuple"),
        (SECRET, "no tuple"),
        ((SECRET,), "no tuple"),
        ((SECRET, later(), "", {}, 1), "no tuple"),
        (("", later()), "no printable ASCII"),
        ((SECRET + "\x01auth=", later()), "no printable ASCII"),
        (("ü", later()), "no printable ASCII"),
        ((SECRET.encode(), later()), "no printable ASCII"),
        ((SECRET, "tomorrow"), "not in the future"),
        ((SECRET, True), "not in the future"),
        ((SECRET, float("nan")), "not in the future"),
        ((SECRET, float("inf")), "not in the future"),
        ((SECRET, later(-1)), "not in the future"),
        ((SECRET, 10**400), "OverflowError"),  # no float is so large
        ((SECRET, later() * 1000), "not in the future"),  # milliseconds
        ((SECRET, later(), 1), "principal"),
        ((SECRET, later(), "", {"auth": "x"}), "extensions"),
        ((SECRET, later(), "", {"a": "x\x01"}), "extensions"),
        ((SECRET, later(), "", {"a b": "x"}), "extensions"),
        ((SECRET, later(), "", [SECRET]), "extensions"),
        ((SECRET, later(), "", Lazy()), "RuntimeError"),
    ],
)
def test_anything_else_is_refused_and_not_shown(result: Any, said: str) -> None:
    with pytest.raises(Unavailable, match=said) as error:
        provider(result)("")
    assert SECRET not in str(error.value)


def test_a_token_is_shared_until_half_of_its_life_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [1_000.0], []

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        if now[0] > 1_150:
            raise RuntimeError(SECRET)
        return f"{config}{len(asked)}", now[0] + 100

    monkeypatch.setattr(time, "time", lambda: now[0])
    shared = TokenProvider("a.b", token)
    assert [shared("x").value, shared("x").value, shared("y").value] == ["x1", "x1", "y2"]
    now[0] = 1_049
    assert shared("x").value == "x1"
    now[0] = 1_051
    assert shared("x").value == "x3"
    now[0] = 1_150.5
    assert shared("x").value == "x3", "it fails, and the last token is still good"
    now[0] = 1_151.5
    with pytest.raises(
        Unavailable, match=r"the token provider a\.b raised RuntimeError at test_token_provider"
    ) as error:
        shared("x")
    assert SECRET not in str(error.value)


def test_a_failure_is_shared_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it were not, each client of the process would wait for a failure of its own, one after the other."""
    now, asked = [1_000.0], []

    def token(_: str) -> tuple[str, float]:
        asked.append(now[0])
        if len(asked) > 1:
            raise RuntimeError(SECRET)
        return "value", now[0] + 100

    monkeypatch.setattr(time, "time", lambda: now[0])
    shared = TokenProvider("a.b", token)
    assert shared("").value == "value"
    for now[0] in (1_060.0, 1_061.0, 1_064.9):
        assert shared("").value == "value", "the old one is still good"
    assert asked == [1_000.0, 1_060.0]
    now[0] = 1_065.0
    shared("")
    assert asked[2:] == [1_065.0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nobody waits for a token, and each call that hangs is given up by the next one."""
    monkeypatch.setattr(token_provider, "ANSWERED_WITHIN", 0.05)
    monkeypatch.setattr(token_provider, "FAILURE_COUNTS", 0.0)
    monkeypatch.setattr(token_provider, "HANGS_AFTER", 0.0)
    return monkeypatch


def test_a_call_that_hangs_for_long_is_given_up(impatient: pytest.MonkeyPatch) -> None:
    release, calls = threading.Event(), list[int]()

    def token(_: str) -> tuple[str, float]:
        calls.append(1)
        if len(calls) < 3:
            release.wait(60)
        return "value", later()

    recovers = TokenProvider("a.b", token)
    for _ in range(2):
        with pytest.raises(Unavailable, match="has not answered"):
            recovers("")
    impatient.setattr(token_provider, "ANSWERED_WITHIN", PATIENCE)
    assert recovers("").value == "value", "the third call is a new one"
    release.set()


def test_only_calls_that_still_hang_keep_others_from_beginning(impatient: pytest.MonkeyPatch) -> None:
    """A process may live for years, and its token server hang again and again."""
    release, calls = threading.Event(), list[int]()

    def token(_: str) -> tuple[str, float]:
        calls.append(1)
        release.wait(60)
        return "value", later(0.2)

    hangs = TokenProvider("a.b", token)
    for _ in range(6):
        with pytest.raises(Unavailable, match="has not answered"):
            hangs("")
    assert len(calls) == 1 + token_provider.GIVEN_UP_MAX
    release.set()
    impatient.setattr(token_provider, "ANSWERED_WITHIN", PATIENCE)
    until("all have ended", lambda: not any(each.is_busy for each in (*hangs._given_up, hangs._in_time)))
    assert hangs("").value == "value"
    release.clear()
    impatient.setattr(token_provider, "ANSWERED_WITHIN", 0.05)
    until("the token has expired", lambda: time.time() >= hangs._answers[""].token.expires_at)  # type: ignore[union-attr]
    for _ in range(6):
        with pytest.raises(Unavailable, match="has not answered"):
            hangs("")
    assert len(calls) == 2 * (1 + token_provider.GIVEN_UP_MAX) + 1
    release.set()


def test_nobody_waits_for_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_provider, "ANSWERED_WITHIN", 0.1)
    release = threading.Event()
    hangs = TokenProvider("a.b", lambda _: release.wait(60))
    with pytest.raises(Unavailable, match="has not answered"):
        hangs("")
    release.set()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("os.nothing", "os has no callable nothing"),
        ("nowhere_at_all.f", "no module nowhere_at_all"),
        ("os.sep", "no callable"),
    ],
)
def test_what_can_not_be_imported_is_told(path: str, said: str) -> None:
    with pytest.raises(TokenProviderUnusable, match=said):
        load(path)
    with pytest.raises(Unsupported, match=said):
        access({**OAUTH, TOKEN_PROVIDER: path})


def test_the_extra_for_msk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_provider, "find_spec", lambda _: None)
    with pytest.raises(TokenProviderUnusable, match="msk-iam"):
        load("mirror.msk_iam.token")


_outcome: list[Any] = []


def given(config: str) -> Any:
    """The provider of the tests below."""
    assert config == "the config"
    if not _outcome:
        raise RuntimeError(SECRET)
    return _outcome[0]


def test_both_clients_get_its_token_and_none_is_made_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_provider, "FAILURE_COUNTS", 0.0)
    path = f"{__name__}.given"
    properties = {**OAUTH, TOKEN_PROVIDER: path}
    login = access(properties).login
    assert login is not None
    with pytest.raises(
        ClusterAway, match=r"cluster a does not answer: the token provider .* raised RuntimeError"
    ) as error:
        clients.admin(Cluster("a", properties, {}, {}))
    with pytest.raises(Unavailable):
        login.exchange()
    _outcome.append((SECRET, later()))
    made = clients.admin(Cluster("a", properties, {}, {}))
    assert isinstance(made, AdminClient)
    assert SECRET.encode() in next(login.exchange())
    assert SECRET not in str(error.value) and SECRET not in repr(login)
