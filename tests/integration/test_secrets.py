"""Passwords of a run stand in its configuration and nowhere else: every output is searched."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.local_kafka import LocalCluster, free_port
from tests.harness import oracle
from tests.harness.command import mirror
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE

USER, PASSWORD, WRONG, UNUSED = "mirror", "xq7-Hunter-target", "xq7-Hunter-wrong", "xq7-Hunter-source"
SECRET = re.compile("xq7-Hunter", re.IGNORECASE)
UI_PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, str]]:
    """A cluster that also listens with SASL/PLAIN, and the address of that listener."""
    cluster = LocalCluster("secured", tmp_path_factory.mktemp("secured"))
    (broker,) = cluster.brokers
    address = f"127.0.0.1:{free_port()}"
    for key in ("listeners", "advertised.listeners"):
        broker.properties[key] = f"{broker.properties[key]},SASL_PLAINTEXT://{address}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    broker.properties |= {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} user_{USER}="{PASSWORD}";',
    }
    with cluster:
        yield cluster, address


def settings(pair: Pair, address: str, ui: int, password: str) -> dict[str, object]:
    made = pair.settings(log={"level": "debug", "format": "json"})
    made["clusters"]["backup"] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": USER,
        "sasl.password": password,
    }
    made["clusters"][pair.alias]["sasl.password"] = UNUSED
    made["spark"]["conf"] = {"spark.ui.enabled": "true", "spark.ui.port": str(ui), "spark.mirror.password": UNUSED}
    return made


def page(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_no_output_has_a_password(
    source_cluster: LocalCluster, secured: tuple[LocalCluster, str], prefix: str, tmp_path: Path
) -> None:
    cluster, address = secured
    pair = Pair(source_cluster.bootstrap, cluster.bootstrap, "plain", prefix)
    topic, ui = pair.topic("t"), free_port()
    pair.produce(topic, Made(None, b"one"), Made(b"k", b"two"))
    outputs: dict[str, str] = {}
    environment = {"MIRROR_TEST_PASSWORD": PASSWORD}
    with Service(settings(pair, address, ui, "${env:MIRROR_TEST_PASSWORD}"), tmp_path, environment) as service:
        service.wait_for("copied", lambda: service.metric("mirror_source_records_total", topic=topic) == 2, PATIENCE)
        for path in ("/metrics", "/status", "/readyz", "/livez", "/"):
            outputs[f"http {path}"] = service.get(path)[1]
        for path in UI_PAGES:
            outputs[f"Spark UI {path}"] = page(ui, f"{path}/")
        (application,) = re.findall(r'"id" : "([^"]+)"', page(ui, "api/v1/applications"))
        for path in ("environment", "jobs", "stages", "allexecutors", "sql"):
            outputs[f"Spark API {path}"] = page(ui, f"api/v1/applications/{application}/{path}")
        assert "spark.ui.port" in outputs["Spark UI environment"], "the page is there"
        for process in service.processes():
            outputs[f"command line {process.pid}"] = " ".join(process.cmdline())
        for name in ("mirror-control", "mirror-status", "mm2-offset-syncs"):
            outputs[name] = repr(oracle.read(pair.target, f"{name}.{pair.alias}.internal"))
        # Then, commands and errors.
        for verb in ("status", "check", "plan", "verify", "pause"):
            ended = mirror(verb, "-c", file_of(tmp_path, settings(pair, address, free_port(), PASSWORD)))
            assert ended.returncode == 0, (verb, ended.stdout + ended.stderr)
            outputs[verb] = ended.stdout + ended.stderr
        assert service.terminate() == 0
        outputs["log"] = "\n".join(service.lines)
        assert any(event["level"] == "DEBUG" for event in service.events)
    wrong = mirror("check", "-c", file_of(tmp_path, settings(pair, address, free_port(), WRONG)))
    assert wrong.returncode == 1
    assert "FAILED" in wrong.stdout and "uthentication" in wrong.stdout, wrong.stdout
    outputs["check with a wrong password"] = wrong.stdout + wrong.stderr
    assert all(outputs.values())
    assert [name for name, text in outputs.items() if SECRET.search(text)] == []


def file_of(directory: Path, content: dict[str, object]) -> Path:
    return Service(content, directory).file
