"""The name that brokers give to a client with a certificate: its subject, as Java writes it (RFC 2253)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirror.kafka.certificates import PEM, content, elements, fields
from mirror.settings import Cluster

# By the DER content of the object identifier. Of any other one Java writes the numbers, and the value in hexadecimal.
_KEYWORDS: Mapping[bytes, str] = {
    b"\x55\x04\x03": "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x09": "STREET",
    b"\x55\x04\x0a": "O",
    b"\x55\x04\x0b": "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
_WIDE = {0x1E: "utf-16-be", 0x1C: "utf-32-be"}  # ASN.1's BMPString and UniversalString


def own_subject(cluster: Cluster) -> str | None:
    """The subject of the certificate that our clients show, if they log in with that alone; None if it is not known."""
    properties = cluster.properties
    if properties.get("security.protocol", "").lower() != "ssl":
        return None
    found = PEM.search(content(properties.get("ssl.certificate.location")) or properties.get("ssl.certificate.pem", ""))
    return None if found is None else subject(found[0])


def subject(pem: str) -> str | None:
    """The subject of a certificate; None if it can't be decoded, or has parts that are rare."""
    try:
        parts = [_attribute(each) for _, each in elements(fields(pem)[3][1])]
    except (ValueError, IndexError, KeyError):
        return None
    return ",".join(reversed(parts)) or None


def _attribute(relative: bytes) -> str:
    ((_, pair),) = elements(relative)  # several could be a set
    (_, name), (tag, value) = elements(pair)
    text = value.decode(_WIDE.get(tag, "utf-8"))
    escaped = re.sub(r'([,+"\\<>;])|^([ #])|( )$', r"\\\g<0>", text)
    return f"{_KEYWORDS[name]}={escaped}"
