"""Passwords and certificates in files: when they are read again, and when clients are made anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from mirror.errors import ClusterAway
from mirror.kafka import credentials
from mirror.kafka.client_errors import connection_reason
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.credentials import Credentials, FileChanges, properties_of
from mirror.kafka.producers import transactional_properties
from mirror.kafka.renewed import Outage, Renewed, another
from mirror.settings import Cluster
from tests.unit.test_naming import flow


class Client:
    """Stands for any client."""


@pytest.fixture(autouse=True)
def each_look_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_INTERVAL", 0.0)
    monkeypatch.setattr(credentials, "_known", {})


def cluster(directory: Path) -> Cluster:
    """A cluster with a password and a certificate in files."""
    (directory / "password").write_text("first\n")
    (directory / "certificate").write_text("a certificate\n")
    properties = {"sasl.password": "as it was at the start", "ssl.certificate.location": str(directory / "certificate")}
    return Cluster("a", properties, {}, {}, {"sasl.password": str(directory / "password")})


def settle(changes: FileChanges) -> bool:
    """Two looks must find the same."""
    changes.any()
    return changes.any()


def test_a_changed_password_is_taken_once_it_has_come_to_rest(tmp_path: Path) -> None:
    there, password = cluster(tmp_path), tmp_path / "password"
    assert properties_of(there)["sasl.password"] == "first", "an executor may start long after the service"
    changes = FileChanges(there)
    password.write_text("second\r\n")
    assert not changes.any() and properties_of(there)["sasl.password"] == "first"
    assert changes.any() and properties_of(there)["sasl.password"] == "second"
    assert changes.any(), "until it was noted"
    changes.note()
    assert not settle(changes)
    password.touch()
    assert not settle(changes), "the content is the same"
    password.unlink()
    assert settle(changes) and properties_of(there)["sasl.password"] == "second"


SASL = "sasl_ssl://b:9092/bootstrap: SASL authentication error: "


@pytest.mark.parametrize("repeated", ["as it was at the start", "first", "of producers", "of consumers"])
def test_a_password_that_a_broker_repeats_is_in_no_reason(tmp_path: Path, repeated: str) -> None:
    there = cluster(tmp_path)
    there = replace(there, consumer={"sasl.password": "of consumers"}, producer={"sasl.password": "of producers"})
    refusal = KafkaError(KafkaError._AUTHENTICATION, f"{SASL}{repeated} is wrong (after 7ms in state AUTH_REQ)")
    assert connection_reason(there, refusal) == "Local: Authentication failure"
    usual = KafkaError(KafkaError._AUTHENTICATION, f"{SASL}no such user (after 7ms in state AUTH_REQ)")
    assert connection_reason(there, usual) == f"{SASL}no such user"


def test_an_empty_password_hides_no_reason() -> None:
    there = Cluster("a", {"sasl.password": ""}, {}, {})
    assert connection_reason(there, KafkaError(KafkaError._AUTHENTICATION, "no")) == "no"


def test_a_reason_that_is_no_text() -> None:
    def cut_within_a_character() -> str:
        return b"\xc3".decode()

    error: Any = SimpleNamespace(str=cut_within_a_character, code=lambda: KafkaError._AUTHENTICATION)
    assert connection_reason(Cluster("a", {}, {}, {}), error) == "Local: Authentication failure"


def test_a_request_that_fails_shows_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = cluster(tmp_path)
    error = KafkaError(KafkaError._AUTHENTICATION, f"{SASL}first is wrong")

    class Refused:
        def list_topics(self, timeout: float) -> None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def poll(self, timeout: float) -> None:
            admin._on_error(error)

    monkeypatch.setattr(ClusterAdmin, "_admin", Refused())
    admin = ClusterAdmin(there)
    with pytest.raises(ClusterAway) as raised:
        admin.partitions()
    assert "first" not in str(raised.value) and "Authentication failure" in str(raised.value)


def test_a_file_that_is_not_there_leaves_what_the_service_has_shipped(tmp_path: Path) -> None:
    there = Cluster("a", {"sasl.password": "shipped"}, {}, {}, {"sasl.password": str(tmp_path / "nowhere")})
    assert properties_of(there)["sasl.password"] == "shipped"


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    """In a volume of Kubernetes the file is reached by a link to a folder, and that link is replaced."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "password").write_text(name)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "old")
    there = Cluster("a", {}, {}, {}, {"sasl.password": str(link / "password")})
    changes = FileChanges(there)
    (tmp_path / "next").symlink_to(tmp_path / "new")
    (tmp_path / "next").rename(link)
    assert settle(changes) and properties_of(there)["sasl.password"] == "new"


def test_certificates_count_in_all_sections(tmp_path: Path) -> None:
    names = ("ssl.ca.location", "ssl.key.location", "https.ca.location")
    for name in names:
        (tmp_path / name).write_text("1")
    where = {name: {name: str(tmp_path / name)} for name in names}
    changes = FileChanges(Cluster("a", where[names[0]], where[names[1]], where[names[2]]))
    for name in names:
        (tmp_path / name).write_text("2")
        assert settle(changes), name
        changes.note()


def test_whoever_holds_a_client_gets_another_one(tmp_path: Path) -> None:
    there = cluster(tmp_path)
    renewed = Renewed(there, Client)
    outage, first = Outage(there), renewed.client
    assert not outage.wants_another()
    (tmp_path / "certificate").write_text("another certificate\n")
    settle(FileChanges(there))
    second = renewed.client
    assert second is not first and renewed.client is second
    assert outage.wants_another() and not outage.wants_another(), "once"
    (tmp_path / "certificate").write_text("one more certificate\n")
    settle(FileChanges(there))
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    assert outage.has_lost(consumer, [], silent=False), "though records come"
    assert not outage.has_lost(consumer, [], silent=False)
    consumer.close()


def test_a_client_that_can_not_be_made_leaves_the_old_one(caplog: pytest.LogCaptureFixture) -> None:
    """A client can't be made while a new certificate is there and its key is not."""

    def fails() -> Client:
        raise KafkaException(KafkaError(KafkaError._SSL, "the key is not the certificate's"))

    first = Client()
    assert another(first, fails) is first
    assert "the old one goes on" in caplog.text


def test_the_properties_of_clients_have_what_the_files_hold(tmp_path: Path) -> None:
    there = cluster(tmp_path)
    changed = flow(target=there)
    assert transactional_properties(changed, "id")["sasl.password"] == "first"


def test_files_are_looked_at_once_in_an_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_INTERVAL", 1.0)
    now = 0.0
    found = Credentials(cluster(tmp_path), lambda: now)
    assert found.version == 0
    (tmp_path / "password").write_text("second")
    assert [found.version for _ in range(5)] == [0] * 5
    now = 1.0
    assert [found.version for _ in range(5)] == [0] * 5
    now = 2.0
    assert found.version == 1
