"""The requests with which a connection begins: the versions and features of the broker (KIP-35, KIP-584), and SASL."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror import __version__
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES, NONE, failure
from mirror.wire.requests import Api, Request, Versions
from mirror.wire.writer import Writer

# The first version with features; the fourth differs in nothing that is used here.
API_VERSIONS = Api("ApiVersions", 18, 0, 3, flexible=3, plain_header=True, greets=True)
SASL_HANDSHAKE = Api("SaslHandshake", 17, 1, 1, flexible=2, greets=True)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 0, 2, flexible=2, greets=True)

_SOFTWARE = "mirror"
_SUPPORTED, _EPOCH, _FINALIZED = 0, 1, 2  # tags
_THREE = struct.Struct(">hhh")


@dataclass(frozen=True, slots=True)
class Features:
    """The features of one broker by name, without those at level 0."""

    supported: Mapping[str, int]  # the highest level that the broker's software supports
    finalized: Mapping[str, int]  # the level that the cluster uses


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a broker can do. `known` is False if it is older than our way of asking, which it has to be asked again."""

    versions: Versions = field(default_factory=dict)
    features: Features = field(default_factory=lambda: Features({}, {}))
    known: bool = True


def api_versions() -> Request[Abilities]:
    """Ask for the versions of all requests. It is answered before the login, so no password is needed."""
    return Request(API_VERSIONS, _write_api_versions, _abilities)


def _write_api_versions(writer: Writer) -> None:
    if writer.version >= 3:
        writer.string(_SOFTWARE).string(__version__).tags()


def _abilities(answer: Cursor) -> Abilities:
    error = answer.int16()
    if error == CODES["UNSUPPORTED_VERSION"] and answer.version > 0:
        answer.rest()  # it has the format of version 0 (KIP-511)
        return Abilities(known=False)
    if error != NONE:
        raise failure(error, API_VERSIONS.name)
    versions = {key: (first, last) for key, first, last in answer.array(_api, _THREE.size)}
    if answer.version > 0:
        answer.throttle()
    tags = answer.tags()
    # An unknown epoch: the finalized features are unknown, too.
    epoch = tags[_EPOCH].int64() if _EPOCH in tags else 0
    supported = dict(tags[_SUPPORTED].array(_supported, 6)) if _SUPPORTED in tags else {}
    finalized = dict(tags[_FINALIZED].array(_finalized, 6)) if _FINALIZED in tags and epoch >= 0 else {}
    return Abilities(versions, Features(supported, finalized))


def _api(answer: Cursor) -> tuple[int, int, int]:
    key, first, last = answer.unpack(_THREE)
    answer.tags()
    return key, first, last


def _supported(answer: Cursor) -> tuple[str, int]:
    name, _, most = answer.string(), answer.int16(), answer.int16()
    answer.tags()
    return name, most


def _finalized(answer: Cursor) -> tuple[str, int]:
    name, most, _ = answer.string(), answer.int16(), answer.int16()
    answer.tags()
    return name, most


def sasl_handshake(mechanism: str) -> Request[tuple[int, list[str]]]:
    """Announce the mechanism of the login. The answer: an error code, and the mechanisms that the broker has."""
    return Request(SASL_HANDSHAKE, lambda writer: writer.string(mechanism), _offered)


def _offered(answer: Cursor) -> tuple[int, list[str]]:
    return answer.int16(), answer.array(Cursor.string, 2)


@dataclass(frozen=True, slots=True)
class Reply:
    """An error code, its message, the mechanism's own answer, and how long (ms) the login lasts (0: for ever)."""

    error: int
    message: str
    answer: bytes
    lasts: int


def sasl_authenticate(message: bytes) -> Request[Reply]:
    """Send one message of the mechanism."""
    return Request(SASL_AUTHENTICATE, lambda writer: writer.bytes(message).tags(), _reply)


def _reply(answer: Cursor) -> Reply:
    error, message, own = answer.int16(), answer.string(), bytes(answer.bytes())
    lasts = answer.int64() if answer.version >= 1 else 0
    answer.tags()
    return Reply(error, message, own, max(0, lasts))
