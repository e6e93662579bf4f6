"""Derives from librdkafka's properties how to connect to a cluster: addresses, TLS and login."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from mirror.errors import TokenProviderUnusable, Unsupported
from mirror.settings import TOKEN_PROVIDER
from mirror.token_provider import CONFIG, load
from mirror.wire.auth import MECHANISMS, OAUTHBEARER, Login, TokenSource
from mirror.wire.oidc import Oidc, Token

Address = tuple[str, int]  # host, port

BATCH_MAX = "receive.message.max.bytes"  # a property. No batch of a source is larger, as librdkafka could not read it
_BATCH_MAX = "100000000"  # its default

_PORT = 9092
_SERVER = re.compile(r"(?:[a-z_]+://)?(?P<host>\[[^]]+\]|[^:/]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_FALSE = frozenset({"false", "f", "0"})
_FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
# Prefixes of properties that decide how a cluster is reached. An unknown property with such a prefix is refused, not
# ignored.
_DECISIVE = ("ssl.", "enable.ssl.", "broker.address.", "client.dns.", "plugin.", "proxy.")
_OAUTH = ("sasl.oauthbearer.", "enable.sasl.oauthbearer.", "https.")  # the same, for OAUTHBEARER only
_KNOWN = frozenset(
    {
        "broker.address.family",
        "enable.ssl.certificate.verification",
        "https.ca.location",
        "https.ca.pem",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        CONFIG,
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
    }
)
# Where systems have the authorities that they trust: Debian, Fedora and Red Hat, SUSE, and Alpine, BSD and macOS.
_BUNDLES = tuple(
    Path("/etc", name)
    for name in (
        "ssl/certs/ca-certificates.crt",
        "pki/tls/certs/ca-bundle.crt",
        "pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "ssl/ca-bundle.pem",
        "ssl/cert.pem",
    )
)
_WITHOUT_EFFECT = {
    "client.dns.lookup": "use_all_dns_ips",
    "enable.sasl.oauthbearer.unsecure.jwt": "false",
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.method": "oidc",
}


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to brokers. `tls` and `login` are None if they are not used.

    `on_throttled` is called for each answer by which a broker throttles us (KIP-219), with the seconds. `threads` look
    up names and log in; None: asyncio's own do.
    """

    servers: tuple[Address, ...]
    client: str
    family: socket.AddressFamily
    tls: ssl.SSLContext | None = field(repr=False)
    login: Login | None = field(repr=False)
    on_throttled: Callable[[float], object] = field(repr=False, default=lambda _: None)
    batch_max: int = int(_BATCH_MAX)  # bytes
    threads: Executor | None = field(repr=False, default=None)
    cluster: str = ""  # what people call it; "": errors say only the broker's address

    def name_of(self, address: Address) -> str:
        """A broker as errors name it."""
        return f"{address[0]}:{address[1]}" + (f" of {self.cluster}" if self.cluster else "")


def access(properties: Mapping[str, str], tokens: TokenSource | None = None) -> Access:
    """The access that a cluster's properties describe. `tokens` are for OAUTHBEARER, instead of those that they name.

    This is the one place that says what we lack. Raises Unsupported for a property that only librdkafka supports, and
    if a file can't be used.
    """
    protocol = properties.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise Unsupported(f"security.protocol is {protocol}")
    encrypted = protocol.endswith("ssl")
    login = _login(properties, tokens) if protocol.startswith("sasl") else None
    decisive = _DECISIVE + (_OAUTH if login and login.tokens else ())
    for name, value in properties.items():
        relevant = encrypted or "ssl." not in name
        known = name in _KNOWN or value.lower() == _WITHOUT_EFFECT.get(name)
        if name.startswith(decisive) and relevant and not known:
            raise Unsupported(f"{name} is set")
    family = properties.get("broker.address.family", "any")
    if family not in _FAMILIES:
        raise Unsupported(f"broker.address.family is {family}")
    batch_max = properties.get(BATCH_MAX, _BATCH_MAX)
    if not batch_max.isdecimal():
        raise Unsupported(f"{BATCH_MAX} is {batch_max}")
    servers = properties.get("bootstrap.servers") or properties.get("metadata.broker.list", "")
    return Access(
        servers=tuple(_server(server.strip()) for server in servers.split(",") if server.strip()),
        client=properties.get("client.id", "mirror"),
        family=_FAMILIES[family],
        tls=_tls(properties) if encrypted else None,
        login=login,
        batch_max=int(batch_max),
    )


def _server(server: str) -> Address:
    match = _SERVER.fullmatch(server)
    port = int(match["port"] or _PORT) if match else 0
    if not match or not 0 < port < 2**16:  # the resolver would take such a number for another port
        raise Unsupported(f"bootstrap.servers has {server}")
    return match["host"].strip("[]"), port


def _login(properties: Mapping[str, str], tokens: TokenSource | None) -> Login:
    mechanism = properties.get("sasl.mechanisms") or properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise Unsupported(f"sasl.mechanisms is {mechanism}")
    user, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if mechanism == OAUTHBEARER and tokens is None and TOKEN_PROVIDER in properties:
        tokens = _provided(properties[TOKEN_PROVIDER], properties.get(CONFIG, ""))
    elif mechanism == OAUTHBEARER and tokens is None:
        if properties.get("sasl.oauthbearer.method", "default") != "oidc":
            raise Unsupported("sasl.oauthbearer.method is not oidc")
        trust = _trust(properties.get("https.ca.location", "probe"), properties.get("https.ca.pem"))
        tokens = Oidc(properties, trust).token
    return Login(mechanism, user, password, tokens if mechanism == OAUTHBEARER else None)


def _provided(path: str, config: str) -> TokenSource:
    try:
        provider = load(path)
    except TokenProviderUnusable as error:
        raise Unsupported(str(error)) from None

    def token() -> Token:
        found = provider(config)
        now = time.monotonic()
        return Token(found.value, now, found.extensions, now + found.expires_at - time.time())

    return token


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = _trust(properties.get("ssl.ca.location", "probe"), properties.get("ssl.ca.pem"))
    verified = properties.get("enable.ssl.certificate.verification", "true").lower() not in _FALSE
    named = properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    context.check_hostname = verified and named
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    if certificate := properties.get("ssl.certificate.location"):
        # With None, OpenSSL would ask for the password on the terminal.
        password = properties.get("ssl.key.password", "")
        try:
            context.load_cert_chain(certificate, properties.get("ssl.key.location"), password)
        except (OSError, ValueError) as error:
            raise _useless(error) from error
    return context


def _trust(location: str, text: str | None) -> ssl.SSLContext:
    """A context that trusts these authorities, or the system's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if text:
            context.load_verify_locations(cadata=text)
        elif location != "probe":
            directory = Path(location).is_dir()
            context.load_verify_locations(None if directory else location, location if directory else None)
        else:
            context.load_default_certs()
            _find_authorities(context)
    except (OSError, ValueError) as error:
        raise _useless(error) from error
    return context


def _find_authorities(context: ssl.SSLContext) -> None:
    """Trust the system's authorities, as librdkafka does, if Python's OpenSSL was built to look for them elsewhere.

    Not if OpenSSL's variables name others. A folder of authorities looks empty here, because OpenSSL reads it later:
    then the system's file is added to it.
    """
    paths = ssl.get_default_verify_paths()
    named = {paths.openssl_cafile_env, paths.openssl_capath_env} & os.environ.keys()
    known = named or context.cert_store_stats()["x509_ca"]
    if not known and (found := next(filter(Path.is_file, _BUNDLES), None)):
        context.load_verify_locations(found)


def _useless(error: Exception) -> Unsupported:
    return Unsupported(f"the certificates or the key can't be used: {error}")
