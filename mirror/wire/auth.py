"""SASL logins without input and output: each is a generator that yields the messages and receives the answers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from mirror.errors import WireError
from mirror.wire.oidc import Token

OAUTHBEARER = "OAUTHBEARER"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *_HASHES, OAUTHBEARER)
_NO_BINDING = b"n,,"  # neither channel binding nor another identity
_ITERATIONS = range(4096, 1_000_001)  # fewer are too weak (the limit of Java's client), more would take too long

Exchange = Generator[bytes, bytes, None]
TokenSource = Callable[[], Token]  # blocks while it fetches one; raises WireError


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are, by one of MECHANISMS. `tokens` are for OAUTHBEARER, which has neither user nor password."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)

    def is_of_same_user(self, other: Login | None) -> bool:
        """True if a connection that one has logged in may log in again with the other."""
        return other is not None and (self.mechanism, self.user) == (other.mechanism, other.user)

    def exchange(self) -> Exchange:
        """The messages of one login. Blocks while a token is fetched. Raises WireError."""
        if self.tokens:
            return bearer(self.tokens())
        if self.mechanism == "PLAIN":
            return plain(self.user, self.password)
        return scram(self.mechanism, self.user, self.password)


def plain(user: str, password: str) -> Exchange:
    """PLAIN (RFC 4616). The broker's answer is empty."""
    yield b"\0" + user.encode() + b"\0" + password.encode()


def bearer(token: Token) -> Exchange:
    """OAUTHBEARER (RFC 7628). The broker's answer is empty if it accepts the token. Raises WireError."""
    extensions = "".join(f"{name}={value}\x01" for name, value in token.extensions.items())
    refusal = yield f"n,,\x01auth=Bearer {token.value}\x01{extensions}\x01".encode()
    if refusal:
        yield b"\x01"  # only then the broker says why


def bearer_token(message: bytes) -> str:
    """The token in a first message of OAUTHBEARER; "" in other messages."""
    return message.partition(b"\x01auth=Bearer ")[2].partition(b"\x01")[0].decode()


def scram(mechanism: str, user: str, password: str, nonce: str | None = None) -> Exchange:
    """SCRAM (RFC 5802, 7677). `nonce` is random unless a test gives one.

    Raises WireError for an invalid answer, and for a broker that does not prove that it knows the password.
    """
    algorithm = _HASHES[mechanism]
    nonce = nonce or secrets.token_urlsafe(24)
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}".encode()
    challenge = yield _NO_BINDING + first
    fields = _fields(challenge)
    try:
        salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        both = fields["r"]
    except (KeyError, ValueError, binascii.Error) as error:
        raise WireError(f"{mechanism}: the broker's challenge can't be read") from error
    if not both.startswith(nonce) or iterations not in _ITERATIONS:
        raise WireError(f"{mechanism}: the broker's challenge is not for us, or has {iterations} iterations")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    final = b"c=" + base64.b64encode(_NO_BINDING) + b",r=" + both.encode()
    exchanged = b",".join((first, challenge, final))
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), exchanged, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = yield final + b",p=" + base64.b64encode(proof)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), exchanged, algorithm)
    if not hmac.compare_digest(_fields(verdict).get("v", "").encode(), base64.b64encode(expected)):
        raise WireError(f"{mechanism}: the broker does not prove that it knows the password")


def _fields(message: bytes) -> dict[str, str]:
    """Parse `r=...,s=...,i=...`."""
    parts = (part.partition("=") for part in message.decode(errors="replace").split(","))
    return {name: value for name, _, value in parts}
