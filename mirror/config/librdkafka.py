"""Checks a cluster's properties with librdkafka itself, without connecting to anything."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from mirror.config.located_yaml import SECRET, Location, Problem
from mirror.config.references import reason
from mirror.config.value_types import SERVER
from mirror.kafka.clients import DEFAULTS, SOURCE_CONSUMER
from mirror.kafka.librdkafka_log import NOT_CREATED, UNKNOWN_PROPERTY, why_not_created
from mirror.kafka.producers import TARGET_PRODUCER, TARGET_PRODUCER_DEFAULTS
from mirror.settings import TOKEN_PROVIDER

# A logger without output: if the file sets `debug`, librdkafka would print during the check.
_SILENT = logging.Logger("mirror.config")
_SILENT.addHandler(logging.NullHandler())

_DOCUMENTATION = "https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"
_BROKERS = ("bootstrap.servers", "metadata.broker.list")  # without both no client connects to anything

_MECHANISMS = ("sasl.mechanisms", "sasl.mechanism")
_METHOD = "sasl.oauthbearer.method"
_TLS_FILES = ("ca", "certificate", "key", "keystore", "crl")  # of the properties ssl.*.location

# Names of Java's clients, and what to write instead.
_JAVA = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method: oidc and sasl.oauthbearer.*, or token_provider",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "ssl.ca.location (a PEM file, which has no password)",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.type": "ssl.ca.location (a PEM file)",
    "ssl.keystore.type": "ssl.keystore.location (a PKCS#12 file) or ssl.certificate.location (a PEM file)",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "buffer.memory": "batch_max_bytes of the flow",
    "max.request.size": "message.max.bytes",
    "max.poll.records": "batch_max_records of the flow",
}
# For "did you mean": librdkafka offers no list of its names.
_COMMON = [
    "bootstrap.servers",
    "consumer",
    "producer",
    "client.id",
    "security.protocol",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "fetch.wait.max.ms",
    "max.partition.fetch.bytes",
    "message.max.bytes",
    "linger.ms",
    "batch.size",
    "batch.num.messages",
    "compression.level",
    "request.timeout.ms",
    "reconnect.backoff.ms",
    "retry.backoff.ms",
]


@dataclass(frozen=True)
class _Role:
    """One kind of client as a task makes it: its section of the file, our defaults, and our fixed values."""

    section: str
    make: Callable[..., Any]
    defaults: Mapping[str, Any]
    fixed: Mapping[str, Any]


# librdkafka starts kinit when a client is made, and that would use the network.
_OFFLINE = {"sasl.kerberos.kinit.cmd": "true"}
_ROLES = (
    _Role("consumer", Consumer, DEFAULTS, {**SOURCE_CONSUMER, **_OFFLINE, "group.id": "check"}),
    _Role(
        "producer",
        Producer,
        {**DEFAULTS, **TARGET_PRODUCER_DEFAULTS},
        {
            **_OFFLINE,
            **TARGET_PRODUCER,
            "transactional.id": "check",
            # The longest that brokers allow. Time-outs that have to be shorter are set later.
            "transaction.timeout.ms": 900_000,
            "message.timeout.ms": 900_000,
        },
    ),
)


@dataclass(frozen=True)
class _Property:
    name: str
    value: str
    location: Location
    hidden: bool


def client_problems(
    at: Location, cluster: Mapping[str, Any], references: Set[Location], broken: Set[Location]
) -> list[Problem]:
    """The problems that librdkafka finds in a cluster's properties.

    Properties at `broken` locations are skipped: they have a problem already. No text holds a value from `references`,
    or one whose name looks like a secret's.
    """
    clients = [(role, _properties(at, cluster, role, references)) for role in _ROLES]
    done = broken | {(*at, "bootstrap.servers")}
    everything = [(role, each) for role, properties in clients for each in properties.values()]
    found = [_single(role, each) for role, each in everything if each.location not in done]
    if not any(found) and not any(location[: len(at)] == at for location in broken):
        found = [problem for _, properties in clients for problem in _unreachable(at, cluster, properties)]
        found = found or [_together(at, role, properties) for role, properties in clients]
    found.append(_token_provider(at, cluster))
    return list(dict.fromkeys(filter(None, found)))


def _token_provider(at: Location, cluster: Mapping[str, Any]) -> Problem | None:
    """What does not go together with a token provider."""
    if cluster.get(TOKEN_PROVIDER) is None:
        return None
    mechanism = next(filter(None, map(cluster.get, _MECHANISMS)), None)
    if mechanism != "OAUTHBEARER" or not str(cluster.get("security.protocol", "")).lower().startswith("sasl_"):
        said = "needs sasl.mechanisms: OAUTHBEARER, and security.protocol: SASL_SSL"
    elif cluster.get(_METHOD, "default") != "default":
        said = "tokens come from here, or from sasl.oauthbearer.method: oidc, and not from both; remove one of them"
    else:
        return None
    return Problem((*at, TOKEN_PROVIDER), said)


def _unreachable(at: Location, cluster: Mapping[str, Any], properties: Mapping[str, _Property]) -> Iterator[Problem]:
    """What librdkafka does not say when a client is made, or not clearly. Such a client would never reach a broker."""
    values = {name: own.value for name, own in properties.items()}
    protocol = values.get("security.protocol", "plaintext").lower()
    known = (SERVER.fullmatch(each.strip()) for each in values.get(_BROKERS[0], "").split(","))
    if any(match and match["protocol"] and match["protocol"].lower() != protocol for match in known):
        said = "what stands before :// is not the cluster's security.protocol; leave it out"
        yield Problem((*at, _BROKERS[0]), said)
    if protocol.startswith("sasl_"):
        named = next((name for name in _MECHANISMS if name in values), None)
        own_tokens = cluster.get(TOKEN_PROVIDER) is not None or values.get(_METHOD) == "oidc"
        unsigned = values.get("enable.sasl.oauthbearer.unsecure.jwt", "").lower() in ("true", "t", "1")
        if named and values[named] == "OAUTHBEARER" and not own_tokens and not unsigned:
            said = "OAUTHBEARER needs tokens: set token_provider, or sasl.oauthbearer.method: oidc"
            yield Problem(properties[named].location, said)
    for name in (f"ssl.{each}.location" for each in _TLS_FILES if protocol.endswith("ssl")):
        if name in values and (why := _unreadable(values[name])):
            yield Problem(properties[name].location, f"can't be read: {why}")


def _unreadable(path: str) -> str | None:
    """Why a file can't be read. `probe` is no file: librdkafka looks for the system's certificates then."""
    if path in ("", "probe"):
        return None
    try:
        Path(path).stat()
    except (OSError, ValueError) as error:
        return reason(error)
    return None if os.access(path, os.R_OK) else os.strerror(errno.EACCES)


def _properties(
    at: Location, cluster: Mapping[str, Any], role: _Role, references: Set[Location]
) -> dict[str, _Property]:
    section = cluster.get(role.section)
    own = section if isinstance(section, dict) else {}
    placed = [(*at, name) for name in cluster if name != TOKEN_PROVIDER]
    placed += [(*at, role.section, name) for name in own]
    result = {}
    for location in placed:
        name = str(location[-1])
        value = (own if len(location) > len(at) + 1 else cluster)[name]
        if isinstance(value, str):
            hidden = location in references or SECRET.search(name) is not None
            result[name] = _Property(name, value, location, hidden)
    return result


def _single(role: _Role, own: _Property) -> Problem | None:
    """The problem of one property by itself."""
    if own.name in _BROKERS:
        return Problem(own.location, "brokers must be given by bootstrap.servers of the cluster itself")
    # The Python client has a property `logger`, and would silently take ours for the user's.
    said = UNKNOWN_PROPERTY if own.name == "logger" else _refusal(role, {own.name: own.value})
    if said is None or said.startswith(NOT_CREATED):
        return None
    if own.name in _JAVA:
        return Problem(own.location, f"Java's name; librdkafka's names are used: {_JAVA[own.name]}")
    if said.startswith(UNKNOWN_PROPERTY):
        near = get_close_matches(own.name, _COMMON, n=1)
        meant = f'did you mean "{near[0]}"? ' if near else ""
        return Problem(own.location, f"unknown property; {meant}librdkafka's names are used, see {_DOCUMENTATION}")
    if own.hidden:
        return Problem(own.location, f"librdkafka refuses the value (not shown), see {_DOCUMENTATION}")
    return Problem(own.location, f"librdkafka refuses the value: {said}, see {_DOCUMENTATION}")


def _together(at: Location, role: _Role, properties: Mapping[str, _Property]) -> Problem | None:
    """The problem of properties that are valid one by one, but not together."""
    said = _refusal(role, {name: own.value for name, own in properties.items()})
    if said is None:
        return None
    text = why_not_created(said)
    protocol = properties.get("security.protocol")
    if protocol and protocol.value.lower().startswith("sasl_") and not properties.keys() & set(_MECHANISMS):
        said = "needs a mechanism; set sasl.mechanisms, e.g. PLAIN, SCRAM-SHA-512 or OAUTHBEARER"
        return Problem(protocol.location, said)
    named = max((name for name in properties if name in text), key=len, default=None)
    # The value of the method is one of librdkafka's own words here, such as `oidc`: others are refused one by one.
    secrets = [own.value for own in properties.values() if own.hidden and own.name != _METHOD]
    return Problem(properties[named].location if named else at, f"librdkafka: {_redacted(text, secrets)}")


def _refusal(role: _Role, properties: Mapping[str, str]) -> str | None:
    """librdkafka's reason not to make the client; None if it makes it."""
    config = {**role.defaults, **properties, **role.fixed}
    if any("OAUTHBEARER" in config.get(name, "") for name in _MECHANISMS):
        # With it a client would fetch a token at once. The OAUTHBEARER properties are checked without it, too.
        config.pop("security.protocol", None)
    for name in _BROKERS:
        config.pop(name, None)
    try:
        role.make(config, logger=_SILENT).close()
    except KafkaException as error:
        return " ".join(error.args[0].str().split())
    except Exception as error:  # TypeError, AttributeError, SystemError and others, for callbacks or odd characters
        return f"{type(error).__name__}: {error}"
    return None


def _redacted(text: str, secrets: Iterable[str]) -> str:
    """The text, or a substitute if it holds even a part of a secret: librdkafka shortens long values."""
    for secret in secrets:
        width = min(len(secret), 6)
        if width and any(secret[i : i + width] in text for i in range(len(secret) - width + 1)):
            return "the properties don't go together (librdkafka's text is not shown: it holds a secret)"
    return text


def servers(value: str) -> set[str]:
    """The servers as host:port, so that two ways to write the same one are equal."""
    found = (SERVER.fullmatch(server.strip()) for server in value.split(","))
    return {f"{match['host'].lower()}:{match['port'] or 9092}" for match in found if match}
