"""Tokens for OAUTHBEARER from a callable of the user's own.

    import time

    def token(config: str) -> tuple[str, float]:
        return fetched(config), time.time() + 900

A cluster's `token_provider` names it by its dotted path. It gets the cluster's `sasl.oauthbearer.config` ("" if that is
not set), and returns what `oauth_cb` of confluent-kafka returns: the token, and when it expires (seconds since the Unix
epoch); after these, if need be, the principal and a mapping of SASL extensions (KIP-342). All clients of a process
share a token until half of its life is over.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from mirror.errors import TokenProviderUnusable, Unavailable
from mirror.user_code import IMPORT_TIMEOUT, Imports, InTime, described, of_callable

CONFIG = "sasl.oauthbearer.config"
MSK_IAM, _SIGNER = "mirror.msk_iam.token", "aws_msk_iam_sasl_signer"  # our own, and what it needs
ANSWERED_WITHIN = 20.0  # seconds that anybody waits for a token
FAILURE_COUNTS = 5.0  # seconds for which nobody asks again after a failure
# Seconds after which a call that hangs is given up, so that another one can begin. Its thread can't be ended, so a
# process has only a few of them at a time.
HANGS_AFTER, GIVEN_UP_MAX = 60.0, 3
_EXPIRED = "has returned a token that has expired since"
# Of a token's life. librdkafka asks for another one when 0.8 of what is left is over. And a broker refuses to have a
# login renewed within a second, so no client gets a token that is about to expire.
SHARED_FOR = 0.5
SIZE_MAX = 2**20  # characters of a token
# Anything else could add to the login's message (RFC 7628).
_NAME, _VALUE = re.compile("[A-Za-z]+"), re.compile(r"[\x20-\x7e\t\r\n]*")


@dataclass(frozen=True, slots=True)
class ProvidedToken:
    """A token, and when it expires (seconds since the Unix epoch)."""

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The newest token, if any, why there is no newer one, if that is so, and when to ask again."""

    token: ProvidedToken | None
    failure: str
    due: float


class TokenProvider:
    """A user's callable, together with the check of what it returns. Any thread may call it."""

    def __init__(self, path: str, function: Callable[[str], object]) -> None:
        self.path = path
        self._function = function
        self._in_time: InTime[ProvidedToken | str] = InTime("token provider")
        self._hangs_since: float | None = None
        self._given_up: list[InTime[ProvidedToken | str]] = []  # whose threads may still live
        self._lock = threading.Lock()  # one asks, and the others take the same token, or the same failure
        self._answers: dict[str, _Answer] = {}

    def __call__(self, config: str) -> ProvidedToken:
        """A token that is still young, or an older one while there is no other.

        Raises Unavailable; nothing that the callable's own exception says is told.
        """
        with self._lock:
            answer = self._answers.get(config)
            if answer is None or time.time() >= answer.due:
                answer = self._answers[config] = self._next(config, answer)
        if answer.token is not None and time.time() < answer.token.expires_at:
            return answer.token
        raise Unavailable(f"the token provider {self.path} {answer.failure or _EXPIRED}")

    def _next(self, config: str, before: _Answer | None) -> _Answer:
        found, now = self._asked(config), time.time()
        if isinstance(found, ProvidedToken):
            return _Answer(found, "", now + SHARED_FOR * (found.expires_at - now))
        return _Answer(before.token if before else None, found, now + FAILURE_COUNTS)

    def _asked(self, config: str) -> ProvidedToken | str:
        """What the callable returns, or why that is no token."""
        now = time.monotonic()
        self._given_up = [each for each in self._given_up if each.is_busy]
        hangs_long = self._hangs_since is not None and now - self._hangs_since > HANGS_AFTER
        if hangs_long and len(self._given_up) < GIVEN_UP_MAX:
            self._given_up.append(self._in_time)
            self._in_time, self._hangs_since = InTime("token provider"), None
        try:
            found = self._in_time.run(lambda: self._judged(config), ANSWERED_WITHIN)
        except TimeoutError:
            self._hangs_since = self._hangs_since or now
            return f"has not answered within {ANSWERED_WITHIN:g} s"
        self._hangs_since = None
        return found

    def _judged(self, config: str) -> ProvidedToken | str:
        try:
            return _token(self._function(config))
        except TokenProviderUnusable as error:  # of mirror's own providers, whose texts hold no secret
            return str(error)
        except BaseException as error:  # whatever it is, it must not end the thread
            return f"raised {described(error)}"


def _token(result: Any) -> ProvidedToken | str:
    """The token in what was returned, or what is wrong with that."""
    if not isinstance(result, tuple) or not 2 <= len(result) <= 4:
        return "returned no tuple of a token, its expiry, and perhaps a principal and extensions"
    value, expires_at, principal, extensions = (*result, None, None)[:4]
    checks = {
        "a token that is no printable ASCII text": _is_text(value) and 0 < len(value) <= SIZE_MAX,
        "an expiry that is not in the future, in seconds since 1970": _is_future(expires_at),
        "a principal that is no printable ASCII text": principal is None or _is_text(principal),
        "extensions that are no mapping of names (letters only) to text": _are_extensions(extensions or {}),
    }
    wrong = next((said for said, good in checks.items() if not good), None)
    if wrong is not None:
        return f"returned {wrong}"
    return ProvidedToken(value, float(expires_at), principal or "", dict(extensions or {}))


def _is_text(found: Any) -> bool:
    return isinstance(found, str) and found.isascii() and found.isprintable()


def _is_future(found: Any) -> bool:
    return type(found) in (int, float) and math.isfinite(found) and time.time() < found < 2**40  # not in ms


def _are_extensions(found: Any) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(name, str)
        and isinstance(value, str)
        and _NAME.fullmatch(name)
        and name != "auth"
        and _VALUE.fullmatch(value)
        for name, value in found.items()
    )


_imports: Imports[TokenProvider] = Imports("token provider", of_callable(TokenProvider))


def load(path: str, timeout: float = IMPORT_TIMEOUT) -> TokenProvider:
    """The provider with this dotted path; the same at each call. Raises TokenProviderUnusable."""
    if path == MSK_IAM and find_spec(_SIGNER) is None:
        said = f"the token provider {path} needs more packages; pip install 'kafka-mirror-spark[msk-iam]'"
        raise TokenProviderUnusable(said)
    try:
        return _imports.load(path, timeout)
    except ValueError as error:
        reason = str(error)
    raise TokenProviderUnusable(f"the token provider {path} can't be used: {reason}")


def oauth_callback(path: str, config: str) -> Callable[[str | None], tuple[str, float, str, dict[str, str]]]:
    """`oauth_cb` for a client of confluent-kafka. Raises TokenProviderUnusable; Unavailable if there is no token now.

    A client that gets no token when it is made waits for it for ten seconds, and then fails without the reason. So the
    first token is asked for here, and the client gets the same.
    """
    provider = load(path)
    provider(config)

    def callback(own: str | None) -> tuple[str, float, str, dict[str, str]]:
        token = provider(own or "")  # of the client, which may have another one than the cluster
        return token.value, token.expires_at, token.principal, dict(token.extensions)

    return callback
