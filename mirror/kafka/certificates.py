"""When the certificates that the configuration names expire. Private keys are not looked at."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from mirror.kafka.credentials import properties_of
from mirror.settings import Cluster

FILES: Mapping[str, str] = {"ssl.ca.location": "ca", "ssl.certificate.location": "certificate"}
TEXTS: Mapping[str, str] = {"ssl.ca.pem": "ca", "ssl.certificate.pem": "certificate"}
HTTP = "http"  # the kind of the HTTP server's own, which belongs to no cluster
KINDS = ("ca", "certificate", HTTP)
SIZE_MAX = 2**20  # bytes of a file
# A file with more certificates is a system's bundle of authorities. Some of those have always expired, and nobody uses
# them.
CERTIFICATES_MAX = 20
PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
SEQUENCE, _VERSION, _UTC_TIME, _TIME = 0x30, 0xA0, 0x17, 0x18  # ASN.1 tags


def expiries(cluster: Cluster) -> dict[str, float]:
    """When the first certificate of each kind expires, in seconds since the Unix epoch.

    A kind is missing if the configuration names no such certificate, or if none can be read: then the clients can't
    read it either, and say so.
    """
    found: dict[str, list[float]] = {}
    for properties in (properties_of(cluster), cluster.consumer, cluster.producer):
        for name, kind in FILES.items():
            found.setdefault(kind, []).extend(_of_text(content(properties.get(name))))
        for name, kind in TEXTS.items():
            found.setdefault(kind, []).extend(_of_text(properties.get(name, "")))
    return {kind: min(times) for kind, times in found.items() if times}


def expiry(path: str | None) -> float | None:
    """When the first certificate in a file expires, in seconds since the Unix epoch; None if none can be read."""
    return min(_of_text(content(path)), default=None)


def content(path: str | None) -> str:
    """The text of a file; "" if it can't be read, is a directory, or is too large for a certificate."""
    if not path:
        return ""
    try:
        if not Path(path).is_file():  # librdkafka knows "probe", and folders
            return ""
        with Path(path).open("rb") as file:
            content = file.read(SIZE_MAX + 1)
    except (OSError, ValueError):
        return ""
    return content.decode("ascii", "replace") if len(content) <= SIZE_MAX else ""


def _of_text(text: str) -> Iterable[float]:
    blocks = PEM.findall(text)
    if len(blocks) > CERTIFICATES_MAX:
        return []
    return [at for block in blocks if (at := not_after(block)) is not None]


def not_after(pem: str) -> float | None:
    """When a certificate expires, in seconds since the Unix epoch; None if it can't be decoded.

    Python's `ssl` gives this date of authorities only. In a certificate (RFC 5280) it comes after the version, the
    serial number, the algorithm and the issuer.
    """
    try:
        _, last = elements(inside(fields(pem)[2], SEQUENCE))
        return _moment(*last)
    except (ValueError, IndexError):
        return None


def fields(pem: str) -> list[tuple[int, bytes]]:
    """The fields of a certificate after the serial number: algorithm, issuer, validity, subject and others.

    Raises ValueError or IndexError if it can't be decoded.
    """
    (certificate,) = elements(ssl.PEM_cert_to_DER_cert(pem))
    to_be_signed, *_ = elements(inside(certificate, SEQUENCE))
    signed = list(elements(inside(to_be_signed, SEQUENCE)))
    return signed[2 if signed[0][0] == _VERSION else 1 :]


def inside(element: tuple[int, bytes], tag: int) -> bytes:
    """The content of an element. Raises ValueError if it has another tag."""
    if element[0] != tag:
        raise ValueError("another element was expected")
    return element[1]


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The elements of a DER sequence: tag and content. Raises ValueError or IndexError if the data is cut off."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length >= 0x80:
            size = length - 0x80
            if not 1 <= size <= 4:
                raise ValueError("the length is not one that a certificate has")
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        if at + length > len(data):
            raise ValueError("the data is cut off")
        yield tag, data[at : at + length]
        at += length


def _moment(tag: int, content: bytes) -> float:
    """The time of an ASN.1 UTCTime, whose years are 1950 to 2049, or GeneralizedTime."""
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif tag != _TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
