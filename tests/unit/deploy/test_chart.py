"""The Helm chart, rendered by Helm: what it makes is valid, safe, and starts the service that was asked for."""

from __future__ import annotations

import copy
import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
import yaml

from mirror import __version__
from mirror.config.load import load
from mirror.web.server import OPEN
from tests.harness import helm

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "mirror.json"
VARIANTS = sorted((CHART / "ci").glob("*-values.yaml"))
OLDEST, NEWEST = "1.29", "1.37"  # of Kubernetes: the chart's kubeVersion, and the newest that has schemas
LOCAL = CHART / "ci" / "local-values.yaml"
CLUSTER = CHART / "ci" / "cluster-values.yaml"
JOB = CHART / "ci" / "job-values.yaml"
ALL = CHART / "ci" / "all-values.yaml"
SPARK_ENDS = 10.0  # seconds that Spark may need after the drain

Object = dict[str, Any]

variants = pytest.mark.parametrize("values", VARIANTS, ids=lambda each: each.name.removesuffix("-values.yaml"))


@cache
def rendered(values: Path, *settings: str) -> tuple[Object, ...]:
    done = helm.render(CHART, "--values", str(values), *(part for each in settings for part in ("--set", each)))
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def one(kind: str, values: Path, *settings: str, name: str | None = None) -> Object:
    (found,) = [
        each
        for each in rendered(values, *settings)
        if each["kind"] == kind and name in (None, each["metadata"]["name"])
    ]
    return copy.deepcopy(found)


def files(values: Path, *settings: str) -> Object:
    """The files that the chart itself writes."""
    data: Object = one("ConfigMap", values, *settings, name="rel-mirror-chart")["data"]
    return data


def pods(values: Path) -> Iterator[Object]:
    """Each pod that a release has: the service's, the test's and the executors'."""
    for each in rendered(values):
        if each["kind"] == "Pod":
            yield each
        elif "template" in each.get("spec", {}):
            yield each["spec"]["template"]
    if "executor.yaml" in files(values):
        yield yaml.safe_load(files(values)["executor.yaml"])


def service_pod(values: Path, *settings: str) -> Object:
    (found,) = [each for each in rendered(values, *settings) if each["kind"] in ("Deployment", "Job")]
    pod: Object = found["spec"]["template"]
    return pod


@cache
def definitions(version: str) -> tuple[Path, referencing.Registry[Any]]:
    (folder,) = helm.kubernetes_schemas().glob(f"v{version}.*-local-strict")
    contents = json.loads((folder / "_definitions.json").read_text())
    return folder, referencing.Registry().with_resource(contents["$id"], referencing.Resource.from_contents(contents))


@cache
def custom(kind: str) -> Any:
    (file,) = helm.operator_resources().glob(f"*_{kind.lower()}s.yaml")
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    schema = helm.strict(version["schema"]["openAPIV3Schema"])
    return {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}


def problems(thing: Object, version: str) -> list[str]:
    """What a strict API server of this version would refuse."""
    group, _, api_version = thing["apiVersion"].rpartition("/")
    if group == "monitoring.coreos.com":
        validator = jsonschema.Draft202012Validator(custom(thing["kind"]))
    else:
        folder, registry = definitions(version)
        parts = [thing["kind"].lower(), *filter(None, [group.split(".")[0]]), api_version]
        schema = json.loads((folder / f"{'-'.join(parts)}.json").read_text())
        validator = jsonschema.Draft202012Validator(schema, registry=registry)
    return [f"{thing['kind']}: {each.json_path}: {each.message[:200]}" for each in validator.iter_errors(thing)]


@variants
def test_helm_finds_nothing_to_say(values: Path) -> None:
    done = helm.lint(CHART, "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout and "[ERROR]" not in done.stdout, done.stdout


@variants
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_is_valid(values: Path, version: str) -> None:
    found = rendered(values)
    assert len(found) >= 4
    assert [said for each in found for said in problems(each, version)] == []
    if "executor.yaml" in files(values):
        assert problems(yaml.safe_load(files(values)["executor.yaml"]), version) == []


def test_a_wrong_object_is_found() -> None:
    """The schemas are strict: a key that does not exist, a wrong type, a missing key."""
    for kind, change in {
        "Deployment": {"replica": 1},
        "Service": {"ports": "http"},
        "ServiceMonitor": {"endpoint": []},
        "PrometheusRule": {"groups": [{"rules": []}]},
    }.items():
        wrong = one(kind, ALL)
        wrong["spec"].update(change)
        assert problems(wrong, NEWEST), kind
    wrong = one("ServiceMonitor", ALL)
    wrong["spec"]["endpoints"][0]["ports"] = "http"
    assert problems(wrong, NEWEST)


@variants
def test_pods_pass_the_restricted_profile_and_write_to_tmp_alone(values: Path) -> None:
    found = list(pods(values))
    assert len(found) >= 2
    for pod in found:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        ours = [each for each in spec["containers"] if each["name"] in ("mirror", "check", "executor")]
        assert len(ours) == 1
        for container in ours:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            writable = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
            assert writable - {"/more"} == {"/tmp"}
        assert all({"configMap", "secret", "emptyDir"} & each.keys() for each in spec["volumes"])


@variants
def test_mirror_reads_the_configuration_as_the_pod_would(
    values: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PRIMARY_PASSWORD", "POD_IP", "POD_NAME"):
        monkeypatch.setenv(name, "10.0.0.1")
    given = yaml.safe_load(values.read_text())
    asked = given.get("existingConfigMap") or "rel-mirror"
    (container, *_) = service_pod(values)["spec"]["containers"]
    mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each.get("configMap", {}).get("name") for each in service_pod(values)["spec"]["volumes"]}
    paths = [Path(each) for each in container["args"] if each.startswith("/")]
    assert [volumes[mounted[str(path.parent)]] for path in paths] == ["rel-mirror-chart", asked]
    local = [tmp_path / path.name for path in paths]
    for path in local:
        source = files(values)
        if path.name != "chart.yaml":  # with a ConfigMap of one's own, any configuration will do
            source = one("ConfigMap", JOB if given.get("existingConfigMap") else values, name="rel-mirror")["data"]
        text = source.get(path.name) or source["mirror.yaml"]
        path.write_text(text.replace("/etc/mirror-http/login", str(tmp_path)))
    for key in ("username", "password"):
        (tmp_path / key).write_text(f"{key}\n")
    settings = load(tuple(local))
    http = given.get("http", {})
    assert settings.http.tls_certificate == ("/etc/mirror-http/tls/tls.crt" if http.get("tlsSecret") else None)
    assert (settings.http.password, settings.http.password_file) == (
        ("password", str(tmp_path / "password")) if http.get("loginSecret") else (None, None)
    )
    (port,) = container["ports"]
    assert settings.http.port == port["containerPort"]
    assert settings.log.format == "json"
    assert settings.spark.master == ("k8s://https://kubernetes.default.svc" if values == CLUSTER else "local[2]")
    assert service_pod(values)["spec"]["terminationGracePeriodSeconds"] > settings.drain_timeout + SPARK_ENDS


@pytest.mark.parametrize(
    ("cpu", "master"), [("500m", "local[1]"), ("1500m", "local[1]"), ("4", "local[4]"), ("2.5", "local[2]")]
)
def test_a_local_spark_has_a_slot_for_each_cpu_that_is_requested(cpu: str, master: str) -> None:
    assert yaml.safe_load(files(LOCAL, f"resources.requests.cpu={cpu}")["chart.yaml"])["spark"]["master"] == master


def test_large_numbers_stay_whole() -> None:
    """Helm reads numbers as floating-point ones, and may write them as 1.6e+07."""
    config = one("ConfigMap", LOCAL, "config.flows[0].batch_max_bytes=16777216", name="rel-mirror")["data"][
        "mirror.yaml"
    ]
    assert "batch_max_bytes: 16777216\n" in config


def test_one_service_and_the_old_one_gone_before_the_new_one_starts() -> None:
    deployment = one("Deployment", LOCAL)["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert not {"replicas", "replicaCount", "autoscaling"} & values.keys()


def test_a_standby_is_a_second_pod_elsewhere() -> None:
    deployment = one("Deployment", LOCAL, "standby.enabled=true", "standby.after=20")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    pod = deployment["template"]
    assert pod["spec"]["containers"][0]["args"][-2:] == ["--standby", "--standby-after=20"]
    spread = pod["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    for each in spread:
        assert each["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    own = one("Deployment", ALL, "standby.enabled=true")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert own == yaml.safe_load(ALL.read_text())["topologySpreadConstraints"]
    assert "--standby" not in one("Deployment", LOCAL)["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_job_does_not_start_again_after_exit_codes_that_a_restart_does_not_help() -> None:
    job = one("Job", JOB)
    (codes,) = [each for each in job["spec"]["podFailurePolicy"]["rules"] if each["action"] == "FailJob"]
    assert codes["onExitCodes"] == {"containerName": "mirror", "operator": "In", "values": [2, 3]}
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    other = one("Job", JOB, "image.tag=other")  # a Job's pod can't be changed
    assert other["metadata"]["name"] != job["metadata"]["name"]


@pytest.mark.parametrize("setting", ["httpPort=9000", "resources.requests.cpu=4", "image.tag=new"])
def test_what_the_chart_sets_takes_a_restart(setting: str) -> None:
    assert service_pod(LOCAL, setting) != service_pod(LOCAL)


def test_a_changed_configuration_takes_a_restart_only_by_choice() -> None:
    change = "config.flows[0].compression=zstd"
    assert service_pod(LOCAL, change) == service_pod(LOCAL)
    restarting = "restartOnConfigChange=true"
    assert service_pod(LOCAL, change, restarting) != service_pod(LOCAL, restarting)


def test_executors_have_what_the_service_has_but_no_token() -> None:
    conf = yaml.safe_load(files(CLUSTER)["chart.yaml"])["spark"]["conf"]
    executor = yaml.safe_load(files(CLUSTER)["executor.yaml"])
    service = service_pod(CLUSTER)
    assert conf["spark.kubernetes.container.image"] == service["spec"]["containers"][0]["image"]
    assert conf["spark.kubernetes.executor.podTemplateContainerName"] == executor["spec"]["containers"][0]["name"]
    assert executor["spec"]["automountServiceAccountToken"] is False
    assert service["spec"]["automountServiceAccountToken"] is True
    mounted = [
        [each for each in pod["spec"]["containers"][0]["volumeMounts"] if each["name"].startswith("certificates")]
        for pod in (executor, service)
    ]
    assert mounted[0] and mounted[0] == mounted[1]
    for kind in ("Service", "Deployment"):  # neither metrics nor the Deployment may count an executor
        selector = one(kind, CLUSTER)["spec"]["selector"]
        assert not (selector.get("matchLabels") or selector).items() <= executor["metadata"]["labels"].items()
    both, driver = (each["spec"]["podSelector"]["matchLabels"].items() for each in policies(CLUSTER))
    assert both <= executor["metadata"]["labels"].items() and both <= service["metadata"]["labels"].items()
    assert driver <= service["metadata"]["labels"].items() and not driver <= executor["metadata"]["labels"].items()


def policies(values: Path) -> list[dict[str, Any]]:
    return [each for each in rendered(values) if each["kind"] == "NetworkPolicy"]


def test_executors_that_failed_end_no_driver() -> None:
    """Names that stay the same would collide with the pods of a driver that was killed, and each collision counts."""
    conf = yaml.safe_load(files(CLUSTER)["chart.yaml"])["spark"]["conf"]
    assert int(conf["spark.executor.maxNumFailures"]) >= 1_000_000
    assert "spark.kubernetes.executor.podNamePrefix" not in conf


def test_the_driver_may_do_what_spark_does_and_no_more() -> None:
    rules = {resource: set(rule["verbs"]) for rule in one("Role", CLUSTER)["rules"] for resource in rule["resources"]}
    assert rules.keys() == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    assert "create" not in rules["services"] | rules["persistentvolumeclaims"]
    assert not any("update" in verbs for verbs in rules.values())


def test_only_a_cluster_reaches_kubernetes() -> None:
    def ports(values: Path) -> list[set[int]]:
        egress = [each["spec"]["egress"] for each in policies(values)]
        return [{port["port"] for rule in rules for port in rule.get("ports", [])} for rules in egress]

    assert ports(LOCAL) == [{53, 9092, 9093, 9094}]
    assert ports(CLUSTER) == [{53, 9092, 9093, 9094}, {443, 6443}]
    assert [each["kind"] for each in rendered(LOCAL) if each["kind"].startswith("Role")] == []
    assert service_pod(LOCAL)["spec"]["automountServiceAccountToken"] is False


def test_the_test_checks_the_configuration_of_the_service() -> None:
    for values in (LOCAL, CLUSTER):
        pod = one("Pod", values)
        (check,), (service, *_) = pod["spec"]["containers"], service_pod(values)["spec"]["containers"]
        assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
        assert check["args"] == ["check", *service["args"][1:]]
        assert [check.get(key) for key in ("image", "env", "envFrom", "volumeMounts")] == [
            service.get(key) for key in ("image", "env", "envFrom", "volumeMounts")
        ]


def test_alerts_and_dashboard_are_those_of_the_repository(tmp_path: Path) -> None:
    """They are links in the chart, and a package holds what the links lead to."""
    done = helm.package(CHART, tmp_path)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / f"mirror-{__version__}.tgz") as packed:
        for name, source in {"alerts.yaml": ALERTS, "dashboard.json": DASHBOARD}.items():
            member = packed.extractfile(f"mirror/files/{name}")
            assert member is not None and member.read() == source.read_bytes()
    shown = one("ConfigMap", ALL, name="rel-mirror-dashboard")
    assert shown["data"]["mirror.json"] == DASHBOARD.read_text()
    text = ALERTS.read_text().replace("https://mirror.example", "https://pages.example/mirror")
    text = text.replace('job="mirror"', 'job="rel-mirror"').replace("job mirror", "job rel-mirror")
    assert one("PrometheusRule", ALL)["spec"] == {"groups": yaml.safe_load(text)["groups"]}


@pytest.mark.parametrize(("kind", "key"), [("ServiceMonitor", "endpoints"), ("PodMonitor", "podMetricsEndpoints")])
def test_the_operator_scrapes_the_job_that_the_alert_asks_for(kind: str, key: str) -> None:
    values = ALL if kind == "ServiceMonitor" else CHART / "ci" / "podmonitor-values.yaml"
    (scrape,) = one(kind, values)["spec"][key]
    assert scrape["relabelings"] == [{"targetLabel": "job", "replacement": "rel-mirror"}]
    selector = one(kind, values)["spec"]["selector"]["matchLabels"].items()
    target = one("Service", values) if kind == "ServiceMonitor" else service_pod(values)
    assert selector <= target["metadata"]["labels"].items()


@variants
def test_probes_and_monitors_reach_a_port_with_tls_and_a_password(values: Path) -> None:
    http = yaml.safe_load(values.read_text()).get("http", {})
    (container, *_) = service_pod(values)["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in OPEN and asked.get("scheme", "HTTP") == ("HTTPS" if http else "HTTP")
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert ({"/etc/mirror-http/tls", "/etc/mirror-http/login"} <= mounted) is bool(http)
    for each in rendered(values):
        for scrape in each.get("spec", {}).get("endpoints", each.get("spec", {}).get("podMetricsEndpoints", [])):
            assert (scrape.get("scheme"), "basicAuth" in scrape) == (("https", True) if http else (None, False))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("mode=pod", "/mode"),
        ("replicaCount=2", "replicaCount"),
        ("certificates[0].secret=a", "mountPath"),
        ("executor.memory=1Gi", "/executor/memory"),
        ("image.digest=abc", "/image/digest"),
        ("existingConfigMap=mine", "only one of the two"),
        ("config.http.port=9000", "set httpPort instead"),
        ("config.drain_timeout=30s", "must be longer than config.drain_timeout (30s)"),
        ("config.drain_timeout=1m", "must be longer than config.drain_timeout (1m)"),
        ("config.drain_timeout=30", "must be longer than config.drain_timeout (30)"),
        ("terminationGracePeriodSeconds=10", "must be longer than config.drain_timeout (10s)"),
        ("metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true", "enable one of them"),
        ("config=null", "clusters and flows are missing"),
        ("standby.enabled=true,workload=Job", "use workload Deployment"),
        ("standby.after=19", "/standby/after"),
        ("workload=Job,extraContainers[0].name=sidecar", "would keep mirror from being started again"),
    ],
)
def test_a_mistake_is_told(settings: str, said: str) -> None:
    done = helm.render(CHART, "--values", str(LOCAL), "--set", settings)
    assert done.returncode != 0 and said in done.stderr, done.stderr


@pytest.mark.parametrize("timeout", ["29s", "500ms", "0s"])
def test_a_drain_that_ends_in_time_is_no_mistake(timeout: str) -> None:
    assert rendered(LOCAL, f"config.drain_timeout={timeout}")


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"


def test_every_value_is_in_the_schema() -> None:
    def keys(values: Any, schema: Any, at: str) -> Iterator[str]:
        if schema.get("additionalProperties") is False:
            assert values.keys() - {"global"} == schema["properties"].keys() - {"global"}, at
            for key, value in values.items():
                yield f"{at}.{key}"
                yield from keys(value, schema["properties"][key], f"{at}.{key}")

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert len(list(keys(values, json.loads((CHART / "values.schema.json").read_text()), ""))) > 60
