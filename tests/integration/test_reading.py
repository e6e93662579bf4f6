"""`mirror verify` reads records itself: what it reads is what stands in the log, whoever wrote it and however."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import IsolationLevel

from mirror.batches.records import Content, encode
from mirror.commands.verify.digests import Digester, RecordDigest, Stretch, digest
from mirror.commands.verify.record_reader import obstacle
from mirror.demo.brokers import LocalCluster
from mirror.kafka.certificates import KINDS
from mirror.service.cluster_watch import ClusterWatch
from mirror.settings import Cluster
from mirror.web.metrics.scrape import Metrics
from mirror.wire import connection as connection_module
from mirror.wire import login
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.metadata import metadata
from tests.harness import batches, credentials, load, oracle, raw_headers, topics
from tests.harness.command import answer, mirror
from tests.harness.listeners import also_listen
from tests.harness.load import Load, Made, mixed
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.tokens import TokenServer
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

LONG_AGO = 1_700_000_000_000  # ms since the Unix epoch
USER, PASSPHRASE = "reader", "of-no-worth"
REAUTHENTICATED = 6_000  # ms for which a login with a password lasts (KIP-368); 900 are left when it is renewed
VALID_DAYS = 9


def entries(properties: dict[str, str], topic: str, librdkafka: bool = False, at: str = "") -> list[RecordDigest]:
    """What a reader finds up to the last stable offset; `at` is an address without a login."""
    (end,) = oracle.ends(at or properties["bootstrap.servers"], topic, IsolationLevel.READ_COMMITTED).values()
    digester = Digester({"it": Cluster("it", properties, {}, {})}, librdkafka)
    return digester.entries(Stretch("it", topic, 0, 0, end, end, first=True))


def test_a_header_name_with_a_nul_byte_is_found_to_be_cut(shared: Pair, shared_service: Service) -> None:
    """The client library cuts it while the record is copied."""
    topic = shared.topic("cut")
    shared.produce(topic, *(Made(None, b"%d" % number, [("name", b"x")]) for number in range(50)))
    raw_headers.produce(shared.source, topic, (b"first", b"na\0me"), b"key", b"value")
    shared.produce(topic, *(Made(None, b"%d" % number) for number in range(50)))
    shared.await_same(topic)  # as the client library sees it
    (found,) = answer("verify", "-c", shared_service.file, "--topic", topic, code=1)["flows"]
    (difference,) = found["partitions"][0]["differences"]
    assert (found["compared"], found["altered"], found["caveat"]) == (100, 1, None)
    assert (difference["kind"], difference["upstream"]) == ("altered", 50)


def test_it_says_why_it_reads_through_the_client_library(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("t", retention_ms=-1)
    remote = topics.create(pair.target, pair.remote(topic), retention_ms=-1)
    for bootstrap, name in ((pair.source, topic), (pair.target, remote)):
        load.produce(bootstrap, name, [Made(b"key", b"value")], timestamp=LONG_AGO)
    topics.commit(pair.target, pair.group, remote, {0: 1})
    settings = pair.settings()
    settings["clusters"]["backup"]["client.dns.lookup"] = "resolve_canonical_bootstrap_servers_only"
    file = Service(settings, tmp_path).file
    said = "header names are compared as the client library reads them, which cuts them at a NUL byte: "
    why = "backup: client.dns.lookup is set"
    (flow,) = answer("verify", "-c", file)["flows"]
    assert flow["equal"] and flow["compared"] == 1 and flow["caveat"] == said + why
    assert mirror("verify", "-c", file).stdout.count(said + why) == 1


def write(bootstrap: str, topic: str, codec: str) -> str:
    """Plain records, committed and aborted transactions, and a record larger than the rest together."""
    with Load(bootstrap, {topic: 1}, transaction=40, abort_every=3, make=mixed) as running:
        running.wait_for(2_000)
    records = [mixed(number) for number in range(1_000)]
    load.produce(bootstrap, topic, [*records, Made(b"large", b"." * 500_000)], compression_type=codec, linger_ms=50)
    return topic


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_both_readers_read_the_same(source_cluster: LocalCluster, prefix: str, codec: str) -> None:
    """They read batches that librdkafka has compressed, and batches that a broker, like Java's clients, did anew."""
    bootstrap = source_cluster.bootstrap
    by_client = write(bootstrap, topics.create(bootstrap, f"{prefix}client"), codec)
    java = {"none": "uncompressed"}.get(codec, codec)
    by_broker = write(bootstrap, topics.create(bootstrap, f"{prefix}broker", compression_type=java), "none")
    for topic in (by_client, by_broker):
        own = entries({"bootstrap.servers": bootstrap}, topic)
        assert own == entries({"bootstrap.servers": bootstrap}, topic, librdkafka=True)
        assert len(own) == oracle.count(oracle.read(bootstrap, topic)) > 3_000


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that also listens with TLS and SCRAM, and wants a certificate of its clients."""
    directory = tmp_path_factory.mktemp("secured")
    made = certificate(directory)
    cluster = LocalCluster("secured", directory)
    (broker,) = cluster.brokers
    address = also_listen(broker, "SASL_SSL")
    tls = {"keystore.type": "PEM", "keystore.location": made / "both.pem", "client.auth": "required"}
    tls |= {"truststore.type": "PEM", "truststore.location": made / "certificate.pem"}
    modules = "org.apache.kafka.common.security"
    scram = f"{modules}.scram.ScramLoginModule required;"
    plain, oauth = (
        f"{modules}.plain.PlainLoginModule required",
        f"{modules}.oauthbearer.OAuthBearerLoginModule required",
    )
    broker.properties |= {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{plain} user_{USER}="{PASSPHRASE}";',
        "listener.name.sasl_ssl.plain.connections.max.reauth.ms": REAUTHENTICATED,
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{oauth} unsecuredLoginStringClaim_sub=broker;",
        **{f"listener.name.sasl_ssl.ssl.{key}": value for key, value in tls.items()},
    }
    with cluster:
        credentials.allow(cluster.bootstrap, USER)
        yield Secured(cluster, made, address)


class Secured(NamedTuple):
    """A cluster, where the certificates are, and the address that they are for."""

    cluster: LocalCluster
    directory: Path
    address: str

    @property
    def properties(self) -> dict[str, str]:
        """What a client needs."""
        return {
            **credentials.properties(USER),
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.directory / "certificate.pem"),
            "ssl.certificate.location": str(self.directory / "certificate.pem"),
            "ssl.key.location": str(self.directory / "locked.pem"),
            "ssl.key.password": PASSPHRASE,
        }


def certificate(directory: Path) -> Path:
    """One for everybody, with its key in the clear and with a password."""
    plain, locked, own = (str(directory / f"{name}.pem") for name in ("key", "locked", "certificate"))
    request = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(VALID_DAYS), "-subj", "/CN=test"]
    subject = ["-addext", "subjectAltName=IP:127.0.0.1"]
    openssl("req", *request, *subject, "-keyout", plain, "-out", own)
    openssl("pkcs8", "-topk8", "-in", plain, "-out", locked, "-passout", f"pass:{PASSPHRASE}")
    (directory / "both.pem").write_bytes(Path(plain).read_bytes() + Path(own).read_bytes())
    return directory


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def test_tls_and_scram(secured: Secured, prefix: str) -> None:
    bootstrap = secured.cluster.bootstrap
    topic = write(bootstrap, topics.create(bootstrap, f"{prefix}t"), "lz4")
    assert entries(secured.properties, topic, at=bootstrap) == entries({"bootstrap.servers": bootstrap}, topic)
    wrong = {
        "sasl.password": ("refuses the login: Authentication failed", "wrong"),
        "sasl.mechanisms": ("does not offer SCRAM-SHA-512, but ", "SCRAM-SHA-512"),
        "ssl.ca.location": ("certificate verify failed", "probe"),
        "ssl.key.password": ("the certificates or the key can't be used", "wrong"),
        "bootstrap.servers": ("Hostname mismatch", secured.address.replace("127.0.0.1", "localhost")),
    }
    for name, (reason, value) in wrong.items():
        assert reason in (obstacle({**secured.properties, name: value}) or ""), name
    elsewhere = {"bootstrap.servers": wrong["bootstrap.servers"][1], "ssl.endpoint.identification.algorithm": "none"}
    assert obstacle(secured.properties) is None
    assert obstacle({**secured.properties, **elsewhere}) is None


async def asked_until(properties: dict[str, str], enough: Callable[[], bool]) -> int:
    """Ask on one connection until there have been enough logins. Returns how often. The connection stays open."""
    connection = await Connection.open(access(properties).servers[0], access(properties))
    deadline, count = time.monotonic() + PATIENCE, 0
    while not enough():
        assert time.monotonic() < deadline
        answers = [connection.send(metadata([])) for _ in range(50)]
        assert all(len(found.brokers) == 1 for found in await asyncio.gather(*answers))
        count += len(answers)
        assert not connection.closed
    connection.close()
    return count


def test_a_login_with_a_password_is_renewed(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is renewed on the same connection, between requests that are sent without a wait.

    The broker would close the connection otherwise.
    """
    logins: list[float] = []

    async def authenticated(*arguments: Any) -> float:
        logins.append(time.monotonic())
        lasts = await login.authenticate(*arguments)
        assert 0 < lasts <= REAUTHENTICATED / 1000
        return lasts

    monkeypatch.setattr(connection_module, "authenticate", authenticated)
    plain = {**secured.properties, "sasl.mechanisms": "PLAIN", "sasl.password": PASSPHRASE}
    assert asyncio.run(asked_until(plain, lambda: len(logins) >= 3)) > 100
    assert logins[-1] - logins[0] > REAUTHENTICATED / 1000


def test_a_token_is_fetched_and_renewed(secured: Secured) -> None:
    """An OIDC server gives tokens for client credentials. They are not signed, but the broker believes them."""
    with TokenServer(life=10) as server:  # a second and a half before the broker ends the login, we log in again
        oauth = {
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "mirror",
            "sasl.oauthbearer.client.secret": PASSPHRASE,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.token.endpoint.url": server.url,
        }
        assert asyncio.run(asked_until({**secured.properties, **oauth}, lambda: len(server.asked) >= 2)) > 100
        assert server.asked[0] == ("mirror:of-no-worth", "grant_type=client_credentials&scope=kafka")
        server.life = -1000
        refused = obstacle({**secured.properties, **oauth}) or ""
        assert "refuses the login" in refused, refused
        server.status = 401
        assert obstacle({**secured.properties, **oauth}) == "the token server answers with 401"


def test_a_watch_knows_when_certificates_expire_and_that_tls_fails(secured: Secured) -> None:
    assert ssl_errors(secured.properties) == 0
    assert ssl_errors({**secured.properties, "ssl.ca.location": "probe"}) > 0


def ssl_errors(properties: dict[str, str]) -> int:
    """The failed logins of a cluster, once it is known whether it is reachable."""
    stopping = threading.Event()
    watch = ClusterWatch(Cluster("it", properties, {}, {}), stopping)
    watch.start()
    until("an answer", lambda: watch.status.reachable or watch.status.authentication_errors)
    stopping.set()
    watch.join(PATIENCE)
    assert watch.status.reachable is (watch.status.authentication_errors == 0), watch.status.reason
    kinds = {"certificate"} | ({"ca"} if properties["ssl.ca.location"] != "probe" else set())
    series = Metrics([], clusters=[watch.status]).registry
    expiry = "mirror_certificate_expiry_timestamp_seconds"
    dates = {kind: series.get_sample_value(expiry, {"cluster": "it", "kind": kind}) for kind in KINDS}
    in_days = {kind: round((at - time.time()) / 86_400) for kind, at in dates.items() if at is not None}
    assert in_days == dict.fromkeys(kinds, VALID_DAYS)
    return watch.status.authentication_errors


def test_messages_of_an_old_format(secured: Secured, prefix: str) -> None:
    """Producers before Kafka 0.11 wrote them. No broker takes them any more, but those that are there stay."""
    bootstrap, (broker,) = secured.cluster.bootstrap, secured.cluster.brokers
    topic = topics.create(bootstrap, f"{prefix}t", retention_ms=-1)
    broker.stop()
    head = [(n, LONG_AGO, Content(b"%d" % n, b"new", [(b"na\0me", b"x")])) for n in range(5)]
    tail = [(n, LONG_AGO, Content(b"%d" % n, b"new", [(b"na\0me", b"x")])) for n in range(9, 12)]
    messages = b"".join(batches.message(n, LONG_AGO, b"%d" % n, b"old") for n in range(5, 9))
    (folder,) = broker.log.parent.glob(f"data/{topic}-0")
    for each in folder.glob("0*"):
        each.unlink()
    (folder / f"{0:020}.log").write_bytes(batches.batch(head) + messages + batches.batch(tail))
    broker.start()
    expected = [*head, *((n, LONG_AGO, Content(b"%d" % n, b"old", ())) for n in range(5, 9)), *tail]
    found = entries({"bootstrap.servers": bootstrap}, topic)
    assert found == [RecordDigest(offset, digest(at, encode(content)), at) for offset, at, content in expected]
