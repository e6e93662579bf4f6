"""deploy/compose.yaml: its files are there, fit each other, and their programs take them.

The images themselves can only be run where they can be pulled.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.config.load import load
from mirror.demo.kafka_jars import KAFKA_VERSION
from tests.harness.programs import program

ROOT = Path(__file__).parents[3]
FILE = ROOT / "deploy" / "compose.yaml"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "mirror.json"
BROKERS = ("primary", "backup")
DROP_PRIVILEGES = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}

Service = dict[str, Any]


@pytest.fixture(scope="module")
def services() -> dict[str, Service]:
    found: dict[str, Service] = yaml.safe_load(FILE.read_text())["services"]
    return found


def mounts(service: Service) -> dict[str, Path]:
    """The file that each path in the container is."""
    split = [each.split(":") for each in service.get("volumes", [])]
    assert all(mode == "ro" for *_, mode in split)
    places = {Path(inside): (FILE.parent / outside).resolve() for outside, inside, _ in split}
    files = {at / file.name: file for at, folder in places.items() if folder.is_dir() for file in folder.iterdir()}
    return {str(at): file for at, file in {**places, **files}.items() if not file.is_dir()}


def listeners(text: str) -> dict[str, str]:
    return dict(each.split("://") for each in text.split(","))


def test_every_mounted_file_is_in_the_repository(services: dict[str, Service]) -> None:
    files = [file for each in services.values() for file in mounts(each).values()]
    assert len(files) >= 6
    assert [file for file in files if not (file.is_file() and file.is_relative_to(ROOT))] == []


def test_no_file_lies_there_unused(services: dict[str, Service]) -> None:
    used = {file for each in services.values() for file in mounts(each).values()}
    assert {each for each in (ROOT / "deploy" / "compose").rglob("*") if each.is_file()} <= used


def test_each_port_is_open_to_this_machine_alone_and_once(services: dict[str, Service]) -> None:
    ports = [port for each in services.values() for port in each.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    outside = [port.split(":")[1] for port in ports]
    assert len(outside) == len(set(outside)) == 5


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_says_addresses_that_its_clients_reach(services: dict[str, Service], name: str) -> None:
    environment = services[name]["environment"]
    bound, told = (listeners(environment[f"KAFKA_{key}LISTENERS"]) for key in ("", "ADVERTISED_"))
    assert bound.keys() == told.keys() | {environment["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    assert all(bound[each].split(":")[-1] == told[each].split(":")[-1] for each in told)
    assert told["PLAINTEXT"].split(":")[0] == name
    port = told["MACHINE"].split(":")[-1]
    assert services[name]["ports"] == [f"127.0.0.1:{port}:{port}"] and told["MACHINE"].startswith("localhost:")
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"1@{bound['CONTROLLER']}"
    assert services[name]["image"] == f"${{KAFKA_IMAGE:-apache/kafka:{KAFKA_VERSION}}}"


def test_the_clusters_have_ids_of_their_own(services: dict[str, Service]) -> None:
    ids = {services[name]["environment"]["CLUSTER_ID"] for name in BROKERS}
    assert len(ids) == len(BROKERS) and {len(each) for each in ids} == {22}


def test_mirror_gets_a_valid_configuration_of_these_clusters(services: dict[str, Service]) -> None:
    settings = load(mounts(services["mirror"])["/etc/mirror/mirror.yaml"])
    (flow,) = settings.flows
    ends = [(each.alias, each.properties["bootstrap.servers"]) for each in (flow.source, flow.target)]
    told = [listeners(services[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"])["PLAINTEXT"] for name in BROKERS]
    assert ends == list(zip(BROKERS, told, strict=True))
    assert services["writer"]["command"][-1].count(told[0]) == 2
    assert services["mirror"]["ports"] == [f"127.0.0.1:{settings.http.port}:{settings.http.port}"]
    assert float(services["mirror"]["stop_grace_period"].removesuffix("s")) > settings.drain_timeout


def test_mirror_sees_that_another_file_takes_the_place_of_its_configuration(services: dict[str, Service]) -> None:
    """Of a file that is mounted alone, a container keeps the old one."""
    assert [each.split(":")[1] for each in services["mirror"]["volumes"]] == ["/etc/mirror"]


def test_mirror_may_do_no_more_than_it_needs(services: dict[str, Service]) -> None:
    mirror = services["mirror"]
    assert {key: mirror[key] for key in DROP_PRIVILEGES} == DROP_PRIVILEGES
    assert [each.split(":")[0] for each in mirror["tmpfs"]] == ["/tmp"]
    assert "Dockerfile" in {each.name for each in (FILE.parent / mirror["build"]).iterdir()}


def test_prometheus_asks_mirror_and_has_the_alerts(services: dict[str, Service], tmp_path: Path) -> None:
    inside = mounts(services["prometheus"])
    configuration = yaml.safe_load(inside["/etc/prometheus/prometheus.yml"].read_text())
    (job,) = configuration["scrape_configs"]
    port = services["mirror"]["ports"][0].split(":")[-1]
    assert job["job_name"] == "mirror" and job["static_configs"] == [{"targets": [f"mirror:{port}"]}]
    assert inside["/etc/prometheus/alerts.yaml"] == ALERTS
    for path, file in inside.items():
        shutil.copy(file, tmp_path / Path(path).name)
    command = [program("promtool", "prometheus"), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    count = len(yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"])
    assert done.returncode == 0 and f"{count} rules found" in done.stdout, done.stdout + done.stderr


def test_grafana_finds_the_dashboard_and_prometheus(services: dict[str, Service]) -> None:
    inside, environment = mounts(services["grafana"]), services["grafana"]["environment"]
    home = environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert inside[home] == DASHBOARD
    provisioning = "/etc/grafana/provisioning"
    (provider,) = yaml.safe_load(inside[f"{provisioning}/dashboards/mirror.yaml"].read_text())["providers"]
    assert provider["options"]["path"] == str(Path(home).parent) and provider["type"] == "file"
    (source,) = yaml.safe_load(inside[f"{provisioning}/datasources/mirror.yaml"].read_text())["datasources"]
    assert source["url"] == f"http://prometheus:{services['prometheus']['ports'][0].split(':')[-1]}"
    (variable,) = [
        each for each in json.loads(DASHBOARD.read_text())["templating"]["list"] if each["type"] == "datasource"
    ]
    assert variable["query"] == source["type"] and not variable["current"] and source["isDefault"]


def test_compose_takes_it() -> None:
    done = subprocess.run(
        [*compose(), "-f", str(FILE), "config", "--quiet"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def compose() -> list[str]:
    """Docker's plugin, or the program of its own that distributions have."""
    docker = shutil.which("docker")
    if docker is not None:
        plugin = [docker, "compose"]
        if subprocess.run([*plugin, "version"], capture_output=True, timeout=60, check=False).returncode == 0:
            return plugin
    return [program("docker-compose", "docker-compose")]
