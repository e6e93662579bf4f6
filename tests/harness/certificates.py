"""Certificates that nobody has signed but their own keys: whoever has to believe one is given it."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """PEM files: the certificate, its key (PKCS#8, in the clear), and one with both, as Kafka's brokers want it."""

    certificate: Path
    key: Path
    both: Path


def openssl(*arguments: str | Path, said: bytes = b"") -> bytes:
    """Run openssl, and return what it writes."""
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, input=said).stdout


def self_signed(directory: Path, name: str, days: int = 30, names: Sequence[str] = ("IP:127.0.0.1",)) -> Certificate:
    """A certificate in the name of `name`, for hosts as openssl's subjectAltName has them."""
    made = Certificate(*(directory / f"{name}-{kind}.pem" for kind in ("certificate", "key", "both")))
    request = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days), "-subj", f"/CN={name}"]
    openssl(
        "req", *request, "-addext", f"subjectAltName={','.join(names)}", "-keyout", made.key, "-out", made.certificate
    )
    made.both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
    return made


def key_set(key: Path) -> str:
    """The public part of an RSA key as a JSON Web Key Set (RFC 7517). Its id is `test`."""
    modulus = openssl("rsa", "-in", key, "-noout", "-modulus").decode().strip().removeprefix("Modulus=")
    number = base64.urlsafe_b64encode(bytes.fromhex(modulus)).rstrip(b"=").decode()
    return json.dumps({"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "test", "n": number, "e": "AQAB"}]})


def signature(key: Path, said: bytes) -> bytes:
    """RS256 (RFC 7518)."""
    return openssl("dgst", "-sha256", "-sign", key, said=said)
