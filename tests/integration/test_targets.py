"""A target whose brokers are set carelessly: what `check` says of each setting, and that no timestamp is replaced."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from mirror.spark.java import java
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.cursor import Cursor
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer
from tests.harness import configuration, oracle, topics
from tests.harness.command import answer, mirror
from tests.harness.listeners import also_listen
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import BLOCKED, Service
from tests.harness.waiting import until

pytestmark = pytest.mark.slow

HOUR = 3_600_000  # ms
THEN = int(time.time() * 1000) - 3 * HOUR  # when all records were written, says their producer; within retention
SECRET = "not-much-of-one"
TYPE = "message.timestamp.type"
CARELESS = {
    "default.replication.factor": 2,
    "min.insync.replicas": 1,
    "unclean.leader.election.enable": "true",
    "log.message.timestamp.type": "LogAppendTime",
    "transaction.partition.verification.enable": "false",
}


@dataclass(frozen=True)
class Tls:
    """How to reach a cluster over TLS."""

    bootstrap: str
    authority: Path  # PEM


@pytest.fixture(scope="module")
def careless_and_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, Tls]]:
    """Two brokers, whose own internal topics get one replica; both listen with TLS, too."""
    directory = tmp_path_factory.mktemp("careless")
    store, authority = directory / "store.p12", directory / "authority.pem"
    keytool = Path(java()).resolve().with_name("keytool")
    for arguments in (
        ("-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1"),
        ("-exportcert", "-rfc", "-file", authority),
    ):
        command = (keytool, *arguments, "-keystore", store, "-storepass", SECRET, "-alias", "broker")
        subprocess.run(command, check=True, capture_output=True)
    cluster = LocalCluster("careless", directory, 2, CARELESS)
    addresses = [also_listen(broker, "SSL") for broker in cluster.brokers]
    for broker in cluster.brokers:
        broker.properties |= {"ssl.keystore.location": store, "ssl.keystore.password": SECRET}
    with cluster:
        yield cluster, Tls(",".join(addresses), authority)


@pytest.fixture(scope="module")
def careless(careless_and_tls: tuple[LocalCluster, Tls]) -> LocalCluster:
    """The cluster alone."""
    return careless_and_tls[0]


@pytest.fixture
def flow(source_cluster: LocalCluster, careless: LocalCluster, prefix: str, data_path: str) -> Pair:
    """The flow from the shared source to the careless target."""
    return Pair(source_cluster.bootstrap, careless.bootstrap, f"c{prefix[-7:-1]}", prefix).by(data_path)


def checks(service: Service, code: int) -> dict[str, tuple[str, str, str]]:
    """Outcome, words and remedy of each line of the flow."""
    found = answer("check", "-c", service.file, code=code)["checks"]
    return {each["what"]: (each["outcome"], each["said"], each["remedy"]) for each in found}


def test_what_of_the_promise_each_setting_costs(flow: Pair, careless: LocalCluster, tmp_path: Path) -> None:
    lone, safe = flow.topic("lone"), flow.topic("safe")
    for topic, factor, unclean in ((lone, 1, "true"), (safe, 2, "false")):
        topics.create_replicated(
            flow.target,
            flow.remote(topic),
            factor,
            message_timestamp_type="CreateTime",
            min_insync_replicas=factor,
            unclean_leader_election_enable=unclean,
        )
    found = checks(flow.service(tmp_path), code=0)

    outcome, said, remedy = found["replicas of internal topics"]
    assert outcome == "WARNING" and "offsets.topic.replication.factor" in remedy
    # mirror's own are still to be created, by the brokers' default.
    assert said.startswith("__consumer_offsets, __transaction_state: have 1 replica: "), said
    outcome, said, _ = found["replicas of remote topics"]
    assert (outcome, said.split(":")[0]) == ("WARNING", flow.remote(lone))
    outcome, said, remedy = found["in-sync replicas"]
    assert outcome == "WARNING" and "min.insync.replicas=2" in remedy
    kinds = ("mirror-control", "mirror-status", "mm2-offset-syncs", "mirror-offset-map")
    own = {f"{flow.alias}.checkpoints.internal", *(f"{kind}.{flow.alias}.internal" for kind in kinds)}
    assert set(said.split(": ")[0].split(", ")) == {"topics to be created"} | own, said
    outcome, said, _ = found["unclean elections"]
    assert outcome == "WARNING" and flow.remote(lone) in said and flow.remote(safe) not in said
    outcome, said, remedy = found["late records"]
    assert outcome == "WARNING" and "record twice" in said
    assert remedy == "set transaction.partition.verification.enable=true on all brokers"
    assert found["transaction markers"] == ("OK", "no broker is Kafka 4.3 or 4.4 (metadata.version up to 29)", "")
    assert found["timestamps"][0] == "OK"


def test_features_are_asked_for_over_tls(
    flow: Pair, careless_and_tls: tuple[LocalCluster, Tls], tmp_path: Path
) -> None:
    _, tls = careless_and_tls
    settings = flow.settings()
    reached = {"bootstrap.servers": tls.bootstrap, "security.protocol": "SSL"}
    settings["clusters"]["backup"] = {**reached, "ssl.ca.location": str(tls.authority)}
    assert checks(Service(settings, tmp_path), code=0)["transaction markers"][0] == "OK"
    # With no authority of its own it is refused, and what can't be asked for is not known. It can believe anybody.
    settings["clusters"]["backup"] = {**reached, "enable.ssl.certificate.verification": False}
    assert checks(Service(settings, tmp_path), code=0)["transaction markers"][0] == "OK"


def set_level(broker: str, feature: str, level: int) -> None:
    """UpdateFeatures (KIP-584), for which the client library has nothing; 2: a downgrade that loses nothing."""

    def write(writer: Writer) -> None:
        writer.pack("i", 30_000)
        writer.array((feature,), lambda each, name: each.string(name).pack("hb", level, 2 if level < 2 else 1).tags())
        writer.pack("b", 0).tags()

    def read(answer: Cursor) -> int:
        answer.throttle()
        error = answer.int16()
        answer.rest()
        return error

    async def asked() -> int:
        connection = await Connection.open((host, int(port)), access({}))
        try:
            return await connection.ask(Request(Api("UpdateFeatures", 57, 1, 1, flexible=0), write, read))
        finally:
            connection.close()

    host, _, port = broker.rpartition(":")
    assert asyncio.run(asked()) == 0


def test_a_transaction_version_that_was_not_raised(flow: Pair, careless: LocalCluster, tmp_path: Path) -> None:
    service = flow.service(tmp_path)
    assert checks(service, code=0)["transaction version"] == ("OK", "transaction.version is 2", "")
    first = careless.brokers[0].bootstrap
    set_level(first, "transaction.version", 1)
    try:
        outcome, said, remedy = until(
            "the brokers have heard of it",
            lambda: found if (found := checks(service, code=0)["transaction version"])[0] == "WARNING" else None,
        )
        assert outcome == "WARNING" and said.startswith("transaction.version is 1, as after an upgrade")
        command = f"kafka-features.sh --bootstrap-server {flow.target} upgrade --feature transaction.version=2"
        assert remedy == command
    finally:
        set_level(first, "transaction.version", 2)


def test_timestamps_survive_brokers_that_would_replace_them(
    source_cluster: LocalCluster, careless: LocalCluster, prefix: str, data_path: str, tmp_path: Path
) -> None:
    """Three flows: one looks each second, one does not look again, and one accepts what the target does."""
    looks, waits, accepts = (
        Pair(source_cluster.bootstrap, careless.bootstrap, f"{name}{prefix[-7:-1]}", f"{prefix}{name}-").by(data_path)
        for name in ("looks", "waits", "accepts")
    )
    fresh, there, kept, taken = looks.topic("fresh"), looks.topic("there"), waits.topic("kept"), accepts.topic("taken")
    for pair, topic in ((looks, there), (accepts, taken)):
        topics.create(pair.target, pair.remote(topic))  # with the brokers' default
    for pair, topic in ((looks, fresh), (looks, there), (waits, kept), (accepts, taken)):
        produce(pair, topic)
    settings = configuration.together(
        looks.settings(),
        waits.settings({"refresh_topics_interval": "24h"}),
        accepts.settings({"accept_log_append_time": True}),
    )
    service = Service(settings, tmp_path)
    found = answer("check", "-c", service.file, "--flow", looks.flow, code=1)["checks"]
    ((said, remedy),) = [(each["said"], each["remedy"]) for each in found if each["outcome"] == "FAILED"]
    assert said.startswith(f"{looks.remote(there)}: its {TYPE} is LogAppendTime")
    assert remedy.startswith(f"kafka-configs.sh --bootstrap-server {looks.target} --alter --entity-type topics")
    assert f"nothing is copied to {looks.remote(there)}: " in mirror("plan", "-c", service.file).stdout
    with service:
        # What is made anew keeps timestamps, whatever the brokers' default is.
        for pair, topic in ((looks, fresh), (waits, kept)):
            assert all(record.timestamp == THEN for record in pair.await_same(topic)[0])
        service.wait_for("all of it", lambda: oracle.count(accepts.copied(taken)) == 100)
        assert min(record.timestamp for record in accepts.copied(taken)[0]) > THEN + HOUR
        # What was there and would replace them gets nothing, and all is told.
        event = service.wait_for_event("remote topic replaces timestamps, its partitions are not copied")
        assert (event["topic"], event["flow"]) == (looks.remote(there), looks.flow)
        service.wait_for("not ready", lambda: looks.remote(there) in service.get("/readyz")[1])
        assert service.metric("mirror_refused_topics", source=looks.alias) == 1
        assert oracle.count(looks.copied(there)) == 0
        topics.configure(looks.target, looks.remote(there), message_timestamp_type="CreateTime")
        looks.await_same(there)
        # Altered while the service runs: found at the next look, or in the target's first answer.
        since = len(service.events)
        topics.configure(looks.target, looks.remote(fresh), message_timestamp_type="LogAppendTime")
        told = service.wait_for_event("topic is not mirrored any more", topic=fresh, since=since)
        assert "LogAppendTime" in told["reason"]
        topics.configure(waits.target, waits.remote(kept), message_timestamp_type="LogAppendTime")
        for pair, topic in ((looks, fresh), (waits, kept)):
            produce(pair, topic)
        assert "LogAppendTime" in service.wait_for_event(BLOCKED, topic=kept, since=since)["reason"]
        for pair, topic in ((looks, fresh), (waits, kept)):
            assert oracle.count(pair.copied(topic)) == 100, "nothing was committed with another time"
            topics.configure(pair.target, pair.remote(topic), message_timestamp_type="CreateTime")
            assert all(record.timestamp == THEN for record in pair.await_same(topic)[0])
            pair.assert_settled(topic)
        assert len(service.find("remote topic replaces timestamps, its partitions are not copied")) == 2
        assert service.terminate() == 0, service.tail()
    assert not service.noise, service.tail()


def produce(pair: Pair, topic: str) -> None:
    pair.produce(topic, *(Made(None, b"%d" % number) for number in range(100)), timestamp=THEN)
