"""Derives from librdkafka's properties how to connect to a cluster: addresses, TLS and login."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mirror.errors import Unsupported
from mirror.wire.auth import MECHANISMS

Address = tuple[str, int]  # host, port

_PORT = 9092
_SERVER = re.compile(r"(?:[a-z_]+://)?(?P<host>\[[^]]+\]|[^:/]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_TRUE = frozenset({"true", "t", "1"})
# Prefixes of properties that decide how a cluster is reached. An unknown property with such a prefix is refused, not
# ignored.
_DECISIVE = ("ssl.", "enable.ssl.", "broker.address.", "client.dns.", "plugin.", "proxy.")
_KNOWN = frozenset(
    {
        "enable.ssl.certificate.verification",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
    }
)
_WITHOUT_EFFECT = {"client.dns.lookup": "use_all_dns_ips", "broker.address.family": "any", "ssl.ca.location": "probe"}


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to brokers. `tls` and `login` (mechanism, user, password) are None if they are not used."""

    servers: tuple[Address, ...]
    client: str
    tls: ssl.SSLContext | None = field(repr=False)
    login: tuple[str, str, str] | None = field(repr=False)


def access(properties: Mapping[str, str]) -> Access:
    """The access that librdkafka's properties describe.

    Raises Unsupported for a property that only librdkafka supports, and if a file cannot be used.
    """
    protocol = properties.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise Unsupported(f"security.protocol is {protocol}")
    encrypted = protocol.endswith("ssl")
    for name, value in properties.items():
        relevant = encrypted or "ssl." not in name
        known = name in _KNOWN or value == _WITHOUT_EFFECT.get(name)
        if name.startswith(_DECISIVE) and relevant and not known:
            raise Unsupported(f"{name} is set")
    servers = properties.get("bootstrap.servers") or properties.get("metadata.broker.list", "")
    return Access(
        servers=tuple(_server(server.strip()) for server in servers.split(",") if server.strip()),
        client=properties.get("client.id", "mirror"),
        tls=_tls(properties) if encrypted else None,
        login=_login(properties) if protocol.startswith("sasl") else None,
    )


def _server(server: str) -> Address:
    match = _SERVER.fullmatch(server)
    if not match:
        raise Unsupported(f"bootstrap.servers has {server}")
    return match["host"].strip("[]"), int(match["port"] or _PORT)


def _login(properties: Mapping[str, str]) -> tuple[str, str, str]:
    mechanism = properties.get("sasl.mechanisms") or properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise Unsupported(f"sasl.mechanisms is {mechanism}")
    return mechanism, properties.get("sasl.username", ""), properties.get("sasl.password", "")


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verified = properties.get("enable.ssl.certificate.verification", "true").lower() in _TRUE
    named = properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    context.check_hostname = verified and named
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    location, text = properties.get("ssl.ca.location", "probe"), properties.get("ssl.ca.pem")
    try:
        if text:
            context.load_verify_locations(cadata=text)
        elif location != "probe":
            directory = Path(location).is_dir()
            context.load_verify_locations(None if directory else location, location if directory else None)
        else:
            context.load_default_certs()
        if certificate := properties.get("ssl.certificate.location"):
            # With None, OpenSSL would ask for the password on the terminal.
            password = properties.get("ssl.key.password", "")
            context.load_cert_chain(certificate, properties.get("ssl.key.location"), password)
    except (OSError, ValueError) as error:
        raise Unsupported(f"the certificates or the key can't be used: {error}") from error
    return context
