"""What brokers call a client with a certificate. openssl says how RFC 2253 has it, as Java does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mirror.kafka.subjects import own_subject, subject
from mirror.settings import Cluster


def made(directory: Path, name: str) -> Path:
    certificate = directory / "certificate.pem"
    request = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-utf8",
        "-multivalue-rdn",
        "-subj",
        name,
    ]
    command = [*request, "-keyout", str(directory / "key.pem"), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate


@pytest.mark.parametrize(
    "name",
    [
        "/CN=mirror",
        "/C=DE/ST=Hessen/L=Köln/O=Shop, Inc./OU=a/CN=mirror",
        '/DC=example/DC=shop/UID=7/CN=#a;"<b>\\\\\\+ ',
    ],
)
def test_a_subject_is_written_as_rfc_2253_has_it(tmp_path: Path, name: str) -> None:
    certificate = made(tmp_path, name)
    asked = ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253,-esc_msb,utf8", "-in", str(certificate)]
    said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert subject(certificate.read_text()) == said.removeprefix("subject=").removesuffix("\n")


@pytest.mark.parametrize("name", ["/CN=mirror/emailAddress=mirror@shop.example", "/O=Shop/OU=a+CN=b"])
def test_what_is_rare_is_not_known(tmp_path: Path, name: str) -> None:
    assert subject(made(tmp_path, name).read_text()) is None


def test_only_a_client_that_logs_in_with_its_certificate_alone_has_its_name(tmp_path: Path) -> None:
    shown = {"ssl.certificate.location": str(made(tmp_path, "/O=Shop/CN=mirror"))}

    def named(**more: str) -> str | None:
        properties = {key.replace("_", "."): value for key, value in more.items()}
        return own_subject(Cluster("primary", {**shown, **properties}, {}, {}))

    assert named(security_protocol="SSL") == "CN=mirror,O=Shop"
    assert named(security_protocol="SASL_SSL") is None
    assert named(security_protocol="SSL", ssl_certificate_location=str(tmp_path / "none")) is None
    assert named(security_protocol="SSL", ssl_certificate_location=str(tmp_path / "key.pem")) is None
    assert subject("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----") is None
