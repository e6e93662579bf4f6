"""When certificates expire: made by openssl, with each form of the date, and what is no certificate."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path

import pytest

from mirror.kafka.certificates import CERTIFICATES_MAX, SIZE_MAX, expiries, not_after
from mirror.settings import Cluster


def made(directory: Path, name: str, ends: str, *more: str) -> Path:
    """A certificate with its key in one file; `ends` is a date as openssl takes it."""
    key, own, both = (directory / f"{name}{end}" for end in (".key", ".crt", ".pem"))
    request = ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", str(key)]
    subprocess.run([*request, "-out", f"{own}.csr"], check=True, capture_output=True)
    ca = ["openssl", "ca", "-batch", "-selfsign", "-keyfile", str(key), "-in", f"{own}.csr", "-out", str(own)]
    settings = directory / f"{name}.cnf"
    settings.write_text(
        f"[ca]\ndefault_ca=x\n[x]\nnew_certs_dir={directory}\ndatabase={directory}/{name}.db\nserial={directory}/{name}.no\n"
        "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
    )
    (directory / f"{name}.db").write_text("")
    (directory / f"{name}.no").write_text("0A\n")
    dates = ["-startdate", "20200101000000Z", "-enddate", ends]
    subprocess.run([*ca, "-config", str(settings), *dates, *more], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + own.read_bytes())
    return both


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("certificates")
    made(where, "near", "20300102030405Z")
    made(where, "far", "20710102030405Z")  # after 2049 the date has another form
    return where


NEAR, FAR = 1893553445.0, 3187393445.0


def cluster(**properties: str) -> Cluster:
    return Cluster("primary", {key.replace("_", "."): value for key, value in properties.items()}, {}, {})


def test_the_first_certificate_of_each_kind_counts(directory: Path) -> None:
    near, far = directory / "near.pem", directory / "far.pem"
    both = directory / "both.pem"
    both.write_bytes(far.read_bytes() + near.read_bytes())
    found = expiries(cluster(ssl_ca_location=str(both), ssl_certificate_location=str(far)))
    assert found == {"ca": NEAR, "certificate": FAR}
    assert expiries(cluster(ssl_certificate_pem=near.read_text())) == {"certificate": NEAR}
    of_producers = Cluster("backup", {}, {}, {"ssl.certificate.location": str(near)})
    assert expiries(of_producers) == {"certificate": NEAR}
    file = directory / "replaced.pem"
    file.write_bytes(far.read_bytes())
    in_a_file = {"ssl.certificate.pem": str(file)}
    replaced = Cluster("backup", {"ssl.certificate.pem": near.read_text()}, {}, {}, in_a_file)
    assert expiries(replaced) == {"certificate": FAR}, "the file counts, not what it held at the start"


def test_what_is_no_certificate_has_no_date(directory: Path) -> None:
    assert expiries(cluster()) == {}
    for path in ("probe", str(directory), str(directory / "missing"), str(directory / "near.key"), "\0"):
        assert expiries(cluster(ssl_ca_location=path)) == {}, path
    bundle = directory / "bundle.pem"
    bundle.write_bytes((directory / "near.pem").read_bytes() * (CERTIFICATES_MAX + 1))
    assert expiries(cluster(ssl_ca_location=str(bundle))) == {}


def test_a_damaged_certificate_is_none_and_raises_nothing(directory: Path) -> None:
    text = (directory / "near.pem").read_text()
    whole = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :].strip())
    assert not_after(ssl.DER_cert_to_PEM_cert(whole)) == NEAR
    for length in range(0, len(whole) - 1, 7):
        assert not_after(ssl.DER_cert_to_PEM_cert(whole[:length])) is None
    for at in range(120):
        not_after(ssl.DER_cert_to_PEM_cert(whole[:at] + b"\xff" + whole[at + 1 :]))
    assert not_after("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----") is None


def test_a_file_of_beginnings_takes_no_time(directory: Path) -> None:
    """Each beginning is not compared with the rest of the file, which would take hours."""
    endless = directory / "endless.pem"
    endless.write_text("-----BEGIN CERTIFICATE-----" * (SIZE_MAX // 27))
    began = time.process_time()
    assert expiries(cluster(ssl_ca_location=str(endless))) == {}
    assert time.process_time() - began < 5
