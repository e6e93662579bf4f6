"""The Helm chart, rendered by Helm: what it makes is valid, safe, and starts the service that was asked for."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import tarfile
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
import yaml
from click.testing import CliRunner

from mirror import __version__
from mirror.cli import cli
from mirror.commands.convert.variables import NO_SECRETS
from mirror.config.load import load
from mirror.config.located_yaml import SECRET
from mirror.errors import ConfigError
from mirror.web.server import OPEN
from tests.harness import helm, spark_application
from tests.harness.chart import (
    ALL,
    APPLICATION,
    CHART,
    CLUSTER,
    JOB,
    LOCAL,
    Object,
    files,
    one,
    pods,
    rendered,
    variants,
)
from tests.harness.programs import program

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "mirror.json"
OLDEST, NEWEST = "1.29", "1.37"  # of Kubernetes: the chart's kubeVersion, and the newest that has schemas
SPARK_ENDS = 10.0  # seconds that Spark may need after the drain


def service_spec(values: Path, *settings: str) -> Object:
    """The spec of the one object that makes the service's pod."""
    found: Object = workload(values, *settings)["spec"]
    return found


def workload(values: Path, *settings: str) -> Object:
    """The one object that makes the service's pod."""
    kinds = ("Deployment", "Job", "SparkApplication")
    (found,) = [each for each in rendered(values, *settings) if each["kind"] in kinds and not hooks_of(each)]
    return found


def hooks_of(thing: Object) -> str:
    """When Helm makes this object for a moment; empty if it is one of the release's own."""
    found: str = thing["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    return found


def service_pod(values: Path, *settings: str) -> Object:
    spec = service_spec(values, *settings)
    pod: Object = spec["driverSpec"]["podTemplateSpec"] if "driverSpec" in spec else spec["template"]
    return pod


def arguments(values: Path, *settings: str) -> list[str]:
    """What `mirror` is called with."""
    spec = service_spec(values, *settings)
    found: list[str] = spec.get("driverArgs") or spec["template"]["spec"]["containers"][0]["args"]
    return found


def executor_pod(values: Path) -> Object:
    pod: Object
    if "executor.yaml" in files(values):
        pod = yaml.safe_load(files(values)["executor.yaml"])
    else:
        pod = service_spec(values)["executorSpec"]["podTemplateSpec"]
    return pod


def spark_conf(values: Path) -> Object:
    """What Spark's driver is told by the chart."""
    conf: Object = service_spec(values).get("sparkConf") or yaml.safe_load(files(values)["chart.yaml"])["spark"]["conf"]
    return conf


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
        return wrong(thing["kind"], thing, jsonschema.Draft202012Validator(custom(thing["kind"])))
    if group == "spark.apache.org":
        found = wrong(thing["kind"], thing, jsonschema.Draft202012Validator(spark_application.SCHEMA))
        templates = [thing["spec"][key]["podTemplateSpec"] for key in spark_application.POD_TEMPLATES]
        return found + [
            said for each in templates for said in wrong("Pod", each, kubernetes("podtemplatespec-v1", version))
        ]
    parts = [thing["kind"].lower(), *filter(None, [group.split(".")[0]]), api_version]
    return wrong(thing["kind"], thing, kubernetes("-".join(parts), version))


def kubernetes(name: str, version: str) -> jsonschema.Draft202012Validator:
    folder, registry = definitions(version)
    return jsonschema.Draft202012Validator(json.loads((folder / f"{name}.json").read_text()), registry=registry)


def wrong(kind: str, thing: Object, validator: jsonschema.Draft202012Validator) -> list[str]:
    return [f"{kind}: {each.json_path}: {each.message[:200]}" for each in validator.iter_errors(thing)]


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
        changed = one(kind, ALL)
        changed["spec"].update(change)
        assert problems(changed, NEWEST), kind
    changed = one("ServiceMonitor", ALL)
    changed["spec"]["endpoints"][0]["ports"] = "http"
    assert problems(changed, NEWEST)
    for at, key in ((), "driverArguments"), (("applicationTolerations", "restartConfig"), "backoff"):
        changed = one("SparkApplication", APPLICATION)
        place = changed["spec"]
        for part in at:
            place = place[part]
        place[key] = 1
        assert problems(changed, NEWEST), key
    for part in spark_application.POD_TEMPLATES:
        changed = one("SparkApplication", APPLICATION)
        changed["spec"][part]["podTemplateSpec"]["spec"]["containers"][0]["argument"] = "run"
        assert problems(changed, NEWEST), part


@variants
def test_pods_pass_the_restricted_profile_and_write_to_tmp_alone(values: Path) -> None:
    found = list(pods(values))
    assert len(found) >= 2
    for pod in found:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        everything = [*spec.get("initContainers", []), *spec["containers"]]
        for container in everything:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, container["name"]
        (ours,) = [each for each in everything if each["name"] in ("mirror", "check", "executor", "validate")]
        writable = {each["mountPath"] for each in ours["volumeMounts"] if not each.get("readOnly")}
        assert writable - {"/more"} == {"/tmp"}
        assert all({"configMap", "secret", "emptyDir"} & each.keys() for each in spec["volumes"])


@variants
def test_mirror_reads_the_configuration_as_the_pod_would(
    values: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PRIMARY_PASSWORD", "CLIENT_SECRET", "POD_IP", "POD_NAME"):
        monkeypatch.setenv(name, "10.0.0.1")
    given = yaml.safe_load(values.read_text())
    asked = given.get("existingConfigMap") or "rel-mirror"
    (container, *_) = service_pod(values)["spec"]["containers"]
    mounted = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each.get("configMap", {}).get("name") for each in service_pod(values)["spec"]["volumes"]}
    paths = [Path(each) for each in arguments(values) if each.startswith("/")]
    assert [volumes[mounted[str(path.parent)]] for path in paths] == ["rel-mirror-chart", asked, "rel-mirror-chart"]
    local = [tmp_path / path.name for path in paths]
    for path in local:
        source = files(values)
        if path.name not in source:  # with a ConfigMap of one's own, any configuration will do
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
    assert (settings.http.host, settings.http.port) == ("::", port["containerPort"])
    assert settings.log.format == "json"
    on_kubernetes = given.get("mode", "local") != "local"
    assert settings.spark.master == ("k8s://https://kubernetes.default.svc" if on_kubernetes else "local[2]")
    assert service_pod(values)["spec"]["terminationGracePeriodSeconds"] >= settings.drain_timeout + SPARK_ENDS


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
    job = workload(JOB)
    (codes,) = [each for each in job["spec"]["podFailurePolicy"]["rules"] if each["action"] == "FailJob"]
    assert codes["onExitCodes"] == {"containerName": "mirror", "operator": "In", "values": [2, 3]}
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    assert job["metadata"]["labels"]["app.kubernetes.io/instance"] == "rel", "the documents say how to delete it"
    other = workload(JOB, "image.tag=other")  # a Job's pod can't be changed
    assert other["metadata"]["name"] != job["metadata"]["name"]


def test_an_application_is_what_spark_submit_is_called_with() -> None:
    spec = service_spec(APPLICATION)
    assert spec["mainClass"] == "org.apache.spark.deploy.PythonRunner"
    file = spec["pyFiles"].removeprefix("local://")
    assert f"site-packages/mirror/__main__.py {file}\n" in (ROOT / "Dockerfile").read_text()
    assert f"pyspark=={spec['runtimeVersions']['sparkVersion']} " in (ROOT / "requirements.txt").read_text()
    assert yaml.safe_load(files(APPLICATION)["chart.yaml"])["spark"].keys() == {"master"}, "for the checks alone"


def test_the_operator_starts_the_driver_again_but_not_because_a_cluster_is_away() -> None:
    def tolerations(values: Path, *settings: str) -> Object:
        found: Object = service_spec(values, *settings)["applicationTolerations"]
        return found

    expected = {"restartPolicy": "Always", "maxRestartAttempts": 100, "restartBackoffMillis": 60_000}
    assert tolerations(APPLICATION)["restartConfig"] == expected
    default = tolerations(LOCAL, "mode=sparkApplication")["restartConfig"]
    assert default == {"restartPolicy": "Always", "maxRestartAttempts": 1_000_000, "restartBackoffMillis": 10_000}
    timeouts = tolerations(APPLICATION)["applicationTimeoutConfig"]
    assert (timeouts["driverStartTimeoutMillis"], timeouts["driverReadyTimeoutMillis"]) == (0, 0)


def test_an_application_that_is_deleted_drains() -> None:
    """The operator kills a driver whose state is old, and has the executors deleted together with the driver."""
    timeouts = service_spec(APPLICATION)["applicationTolerations"]["applicationTimeoutConfig"]
    assert timeouts["forceTerminationGracePeriodMillis"] == 100 * 365 * 86_400_000
    for settings, seconds in (((), 30), (("terminationGracePeriodSeconds=90",), 90)):
        spec = service_spec(APPLICATION, *settings)
        assert service_pod(APPLICATION, *settings)["spec"]["terminationGracePeriodSeconds"] == seconds
        (container,) = spec["executorSpec"]["podTemplateSpec"]["spec"]["containers"]
        assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", str(seconds)]
        # Spark overwrites what the pod template says.
        assert int(spec["sparkConf"]["spark.kubernetes.executor.terminationGracePeriodSeconds"]) > seconds
    assert "lifecycle" not in executor_pod(CLUSTER)["spec"]["containers"][0], "they go after the driver"


def test_an_application_has_time_to_start() -> None:
    def patience(values: Path, *settings: str) -> int:
        probe = service_pod(values, *settings)["spec"]["containers"][0]["startupProbe"]
        return int(probe["periodSeconds"] * probe["failureThreshold"])

    assert (patience(LOCAL), patience(CLUSTER), patience(APPLICATION)) == (60, 60, 300)
    assert patience(APPLICATION, "startupProbe.failureThreshold=7") == 14


def test_spark_makes_the_drivers_arguments_and_memory_and_watches_the_right_container() -> None:
    service, *beside = service_pod(APPLICATION)["spec"]["containers"]
    assert beside and not {"args", "command", "resources"} & service.keys()
    conf = spark_conf(APPLICATION)
    assert conf["spark.kubernetes.driver.podTemplateContainerName"] == service["name"]
    assert (conf["spark.driver.memory"], conf["spark.driver.memoryOverhead"]) == ("1g", "1g")
    requested = conf["spark.kubernetes.driver.request.cores"], conf["spark.kubernetes.driver.limit.cores"]
    assert requested == ("500m", "2")
    account = one("ServiceAccount", APPLICATION)["metadata"]["name"]
    assert conf["spark.kubernetes.authenticate.driver.serviceAccountName"] == account


def test_a_changed_application_is_another_one() -> None:
    """The operator does not follow a change of the one that there is."""

    def name(*settings: str) -> str:
        found: str = one("SparkApplication", APPLICATION, *settings)["metadata"]["name"]
        return found

    assert name("image.tag=other") != name() and name("httpPort=9000") != name()
    assert name("config.flows[0].topics[0]=other") == name()
    assert name("restartOnConfigChange=true") != name("restartOnConfigChange=true", "config.flows[0].topics[0]=other")


def test_a_budget_of_an_application_needs_no_owner_that_kubernetes_knows() -> None:
    assert one("PodDisruptionBudget", APPLICATION)["spec"]["minAvailable"] == 1
    enabled = "podDisruptionBudget.enabled=true"
    for settings, available in (([enabled], 1), ([enabled, "podDisruptionBudget.maxUnavailable=1"], 0)):
        job = one("PodDisruptionBudget", JOB, *settings)["spec"]
        assert job["minAvailable"] == available and "maxUnavailable" not in job
    assert one("PodDisruptionBudget", ALL)["spec"]["maxUnavailable"] == 0


@pytest.mark.parametrize("setting", ["httpPort=9000", "resources.requests.cpu=4", "image.tag=new"])
def test_what_the_chart_sets_takes_a_restart(setting: str) -> None:
    assert service_pod(LOCAL, setting) != service_pod(LOCAL)


@pytest.mark.parametrize("values", [CLUSTER, APPLICATION])
def test_executors_have_what_the_service_has_but_no_token(values: Path) -> None:
    conf, executor, service = spark_conf(values), executor_pod(values), service_pod(values)
    assert conf["spark.kubernetes.container.image"] == service["spec"]["containers"][0]["image"]
    assert conf["spark.kubernetes.executor.podTemplateContainerName"] == executor["spec"]["containers"][0]["name"]
    assert executor["spec"]["automountServiceAccountToken"] is False
    assert service["spec"]["automountServiceAccountToken"] is True
    account = conf["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert account == service["spec"]["serviceAccountName"] == "rel-mirror"
    mounted = [
        [each for each in pod["spec"]["containers"][0]["volumeMounts"] if each["name"].startswith("certificates")]
        for pod in (executor, service)
    ]
    assert mounted[0] and mounted[0] == mounted[1]
    for kind in (
        ("Service", "Deployment") if values == CLUSTER else ("Service", "PodMonitor")
    ):  # neither metrics nor the Deployment may count an executor
        selector = one(kind, values)["spec"]["selector"]
        assert not (selector.get("matchLabels") or selector).items() <= executor["metadata"]["labels"].items()
    both, driver = (each["spec"]["podSelector"]["matchLabels"].items() for each in policies(values))
    assert both <= executor["metadata"]["labels"].items() and both <= service["metadata"]["labels"].items()
    assert driver <= service["metadata"]["labels"].items() and not driver <= executor["metadata"]["labels"].items()


def policies(values: Path) -> list[dict[str, Any]]:
    return [each for each in rendered(values) if each["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("values", [CLUSTER, APPLICATION])
def test_executors_that_failed_end_no_driver(values: Path) -> None:
    """Names that stay the same would collide with the pods of a driver that was killed, and each collision counts."""
    conf = spark_conf(values)
    assert int(conf["spark.executor.maxNumFailures"]) >= 1_000_000
    assert "spark.kubernetes.executor.podNamePrefix" not in conf


@pytest.mark.parametrize("values", [CLUSTER, APPLICATION])
def test_the_driver_may_do_what_spark_does_and_no_more(values: Path) -> None:
    rules = {resource: set(rule["verbs"]) for rule in one("Role", values)["rules"] for resource in rule["resources"]}
    assert rules.keys() == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    assert "create" not in rules["services"] | rules["persistentvolumeclaims"]
    assert not any("update" in verbs for verbs in rules.values())


def test_only_a_cluster_reaches_kubernetes() -> None:
    def ports(values: Path) -> list[set[int]]:
        egress = [each["spec"]["egress"] for each in policies(values)]
        return [{port["port"] for rule in rules for port in rule.get("ports", [])} for rules in egress]

    assert ports(LOCAL) == [{53, 5353, 9092, 9093, 9094}]
    for values in (CLUSTER, APPLICATION):
        assert ports(values) == [{53, 5353, 9092, 9093, 9094}, {443, 6443}]
    assert [each["kind"] for each in rendered(LOCAL) if each["kind"].startswith("Role")] == []
    assert service_pod(LOCAL)["spec"]["automountServiceAccountToken"] is False


def test_the_test_checks_the_configuration_of_the_service() -> None:
    for values in (LOCAL, CLUSTER, APPLICATION):
        pod = one("Pod", values)
        (check,), (service, *_) = pod["spec"]["containers"], service_pod(values)["spec"]["containers"]
        annotations = pod["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation", "Helm reads its log after its end"
        assert check["args"] == ["check", *arguments(values)[1:]]
        assert [check.get(key) for key in ("image", "env", "envFrom", "volumeMounts")] == [
            service.get(key) for key in ("image", "env", "envFrom", "volumeMounts")
        ]


@variants
def test_a_new_configuration_is_validated_before_the_pod_that_runs_is_ended(values: Path) -> None:
    config, job = (each for each in rendered(values) if hooks_of(each) == "pre-install,pre-upgrade")
    order = []
    for each, kind in (config, "ConfigMap"), (job, "Job"):
        annotations = each["metadata"]["annotations"]
        assert each["kind"] == kind
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        order.append(int(annotations["helm.sh/hook-weight"]))
    assert order == sorted(set(order)), "the Job needs the ConfigMap"
    own = {(each["kind"], each["metadata"]["name"]) for each in rendered(values) if not hooks_of(each)}
    names = {each["metadata"]["name"] for each in (config, job)}
    assert names == {"rel-mirror-validate"} and not own & {(kind, *names) for kind in ("ConfigMap", "Job")}
    assert (job["spec"]["backoffLimit"], job["spec"]["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert job["spec"]["activeDeadlineSeconds"] < 300, "for so long Helm waits"
    validating, running = job["spec"]["template"]["spec"], service_pod(values)["spec"]
    (ours,), (service, *_) = validating["containers"], running["containers"]
    extra = yaml.safe_load(values.read_text()).get("extraArgs", [])
    asked = [each for each in arguments(values)[1:] if each not in extra and not each.startswith("--standby")]
    assert ours["args"] == ["validate", *asked]
    same = ("image", "imagePullPolicy", "env", "envFrom", "volumeMounts", "securityContext")
    assert [ours.get(key) for key in same] == [service.get(key) for key in same]
    of_pod = ("securityContext", "initContainers", "nodeSelector", "tolerations", "affinity", "dnsConfig")
    assert [validating.get(key) for key in of_pod] == [running.get(key) for key in of_pod]
    assert validating.get("imagePullSecrets") == yaml.safe_load(values.read_text()).get("imagePullSecrets")
    assert validating["automountServiceAccountToken"] is False
    # At the first installation there is none of the chart's own accounts yet.
    assert validating.get("serviceAccountName") in (None, "default")
    changed = {"rel-mirror-chart": "rel-mirror-validate", "rel-mirror": "rel-mirror-validate"}
    expected = copy.deepcopy(running["volumes"])
    for volume in (each["configMap"] for each in expected if "configMap" in each):
        volume["name"] = changed.get(volume["name"], volume["name"])
    assert validating["volumes"] == expected
    released = {**files(values)}
    released.pop("executor.yaml", None)
    if not yaml.safe_load(values.read_text()).get("existingConfigMap"):
        released |= one("ConfigMap", values, name="rel-mirror")["data"]
    assert config["data"] == released


def test_the_validation_refuses_what_the_service_would_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIMARY_PASSWORD", "secret")
    for setting, refused in ("config.flows[0].topics[0]=other", False), ("config.flows[0].topicz=other", True):
        (config,) = [each for each in rendered(LOCAL, setting) if hooks_of(each) and each["kind"] == "ConfigMap"]
        for name, text in config["data"].items():
            (tmp_path / name).write_text(text)
        named = [part for name in ("chart", "mirror", "address") for part in ("-c", str(tmp_path / f"{name}.yaml"))]
        done = CliRunner().invoke(cli, ["validate", *named])
        assert isinstance(done.exception, ConfigError) if refused else done.exit_code == 0, done


def test_the_validation_can_be_left_out_and_its_time_changed() -> None:
    assert {hooks_of(each) for each in rendered(LOCAL, "validate.enabled=false")} == {"", "test"}
    patient = rendered(LOCAL, "validate.timeoutSeconds=900")
    (job,) = [each for each in patient if each["kind"] == "Job"]
    assert job["spec"]["activeDeadlineSeconds"] == 900


def test_the_pod_can_be_ready_as_soon_as_the_service_lives() -> None:
    for settings, path in ((), "/readyz"), (("readiness=alive",), "/livez"):
        (service,) = service_pod(LOCAL, *settings)["spec"]["containers"]
        assert service["readinessProbe"]["httpGet"]["path"] == path
        assert service["livenessProbe"]["httpGet"]["path"] == "/livez"


def test_alerts_and_dashboard_are_those_of_the_repository(tmp_path: Path) -> None:
    """They are links in the chart, and a package holds what the links lead to."""
    done = helm.package(CHART, tmp_path)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / f"mirror-{__version__}.tgz") as packed:
        for name, source in {"alerts.yaml": ALERTS, "dashboard.json": DASHBOARD}.items():
            member = packed.extractfile(f"mirror/files/{name}")
            assert member is not None and member.read() == source.read_bytes()
        packed_names = packed.getnames()
    assert "mirror/README.md" in packed_names and not [each for each in packed_names if "/ci/" in each]
    shown = one("ConfigMap", ALL, name="rel-mirror-dashboard")
    assert shown["data"]["mirror.json"] == DASHBOARD.read_text()
    text = ALERTS.read_text().replace("https://mirror.example", "https://pages.example/mirror")
    text = text.replace('job="mirror"', 'job="rel-mirror", namespace="ns"')
    text = text.replace("job mirror", "job rel-mirror in namespace ns")
    assert one("PrometheusRule", ALL)["spec"] == {"groups": yaml.safe_load(text)["groups"]}


def test_the_alerts_of_two_releases_of_one_name_do_not_hide_each_other(tmp_path: Path) -> None:
    rules = one("PrometheusRule", LOCAL, "metrics.prometheusRule.enabled=true")["spec"]
    (tmp_path / "chart-rules.yaml").write_text(yaml.safe_dump(rules))
    shutil.copy(ROOT / "tests" / "rules" / "chart.yaml", tmp_path)
    command = [program("promtool", "prometheus"), "test", "rules", str(tmp_path / "chart.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["alerts.yaml", "dashboard.json"])
@pytest.mark.parametrize("left", [None, "../../a/file"])  # git on Windows leaves a link's text
def test_a_link_that_was_not_followed_is_told(name: str, left: str | None, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "files" / name).unlink()
    if left:
        (chart / "files" / name).write_text(left)
    done = helm.render(chart, "--values", str(ALL))
    assert done.returncode != 0 and f"files/{name}: it is a link in the repository" in done.stderr, done.stderr
    assert helm.render(chart, "--values", str(LOCAL)).returncode == 0


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
        ("config.drain_timeout=21s", "at least 10 s longer than config.drain_timeout (21s)"),
        ("config.drain_timeout=1m", "at least 10 s longer than config.drain_timeout (1m)"),
        ("config.drain_timeout=21", "at least 10 s longer than config.drain_timeout (21)"),
        ("config.drain_timeout=1m30s", "must be a duration such as 10s, and is 1m30s"),
        ("config.drain_timeout=1d", "must be a duration"),
        ("terminationGracePeriodSeconds=19", "at least 10 s longer than config.drain_timeout (10s)"),
        ("config.http.host=localhost", "neither the probes nor the Service reach the pod"),
        ("config.http.host=127.0.0.5", "neither the probes nor the Service reach the pod"),
        ("config.http.host=::1", "neither the probes nor the Service reach the pod"),
        ("config.http.tls_certificate=/tls.crt", "config.http.tls_certificate: name a Secret in http.tlsSecret"),
        ("config.http.tls_key=/tls.key", "config.http.tls_key: name a Secret in http.tlsSecret"),
        ("config.http.username=me", "config.http.username: name a Secret in http.loginSecret"),
        ("config.http.password=secret", "config.http.password: name a Secret in http.loginSecret"),
        ("mode=cluster,config.spark=null", "config.spark: with mode cluster, null would take away"),
        ("mode=cluster,config.spark.conf=null", "config.spark.conf: with mode cluster, null would take away"),
        ("mode=cluster,config.spark.master=null", "config.spark.master: with mode cluster, null would take away"),
        ("http.loginSecret=login,config.http=null", "config.http: null would take away the login"),
        (r"config.spark.conf.spark\.authenticate\.secret=me", "conf.spark.authenticate.secret: a ConfigMap would hold"),
        ("mode=cluster,serviceAccount.create=false", "serviceAccount.name: name the account"),
        ("livenessProbe.periodSecond=3", "periodSecond"),
        ("resources.limit.memory=3Gi", "limit"),
        ("securityContext.runAsNonroot=true", "runAsNonroot"),
        ("podSecurityContext.fsgroup=1", "fsgroup"),
        ("metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true", "enable one of them"),
        ("config=null", "clusters and flows are missing"),
        ("standby.enabled=true,workload=Job", "use workload Deployment"),
        ("standby.after=19", "/standby/after"),
        ("mode=sparkApplication,workload=Job", "sparkApplication.restart"),
        ("mode=sparkApplication,standby.enabled=true", "an application has one driver"),
        ("mode=sparkApplication,config.spark.master=yarn", "the operator sets the master"),
        ("sparkApplication.restart.policy=Sometimes", "/sparkApplication/restart/policy"),
        ("readiness=never", "/readiness"),
        ("validate.timeoutSeconds=0", "/validate/timeoutSeconds"),
        ("workload=Job,extraContainers[0].name=sidecar", "would keep mirror from being started again"),
    ],
)
def test_a_mistake_is_told(settings: str, said: str) -> None:
    done = helm.render(CHART, "--values", str(LOCAL), "--set", settings)
    assert done.returncode != 0 and said in done.stderr, done.stderr


@pytest.mark.parametrize(
    "key",
    [
        r"clusters.primary.sasl\.password",
        r"clusters.primary.ssl\.key\.password",
        r"clusters.primary.ssl\.key\.pem",
        r"clusters.primary.ssl\.keystore\.password",
        r"clusters.primary.sasl\.oauthbearer\.client\.secret",
        r"clusters.primary.sasl\.oauthbearer\.assertion\.private\.key\.passphrase",
        r"clusters.primary.sasl\.jaas\.config",
        r"clusters.primary.consumer.sasl\.password",
        *(rf"clusters.primary.a\.{word}\.b" for word in SECRET.pattern.split("|")),
        r"clusters.primary.A\.TOKEN",
        r"spark.conf.spark\.ssl\.keyPassword",
        r"spark.conf.spark\.hadoop\.fs\.s3a\.secret\.key",
        r"spark.conf.spark\.executorEnv\.AWS_SECRET_ACCESS_KEY",
        "metrics.otlp.headers.authorization",
        "metrics.otlp.headers.x-tenant",
        r"flows[0].sasl\.password",
    ],
)
def test_a_secret_comes_by_a_reference(key: str) -> None:
    at = f"config.{key}"
    for secret in ("xq7-Hunter", "$${env:HUNTER}"):  # $${ stands for a plain ${
        done = helm.render(CHART, "--values", str(LOCAL), "--set", f"{at}={secret}")
        said = at.replace("\\", "") + ": a ConfigMap would hold it in clear"
        assert done.returncode != 0 and said in done.stderr and "unter" not in done.stderr.lower(), done.stderr
    for reference in ("${env:HUNTER}", "${file:/etc/hunter}", "before-${env:HUNTER}", "null"):
        assert rendered(LOCAL, f"{at}={reference}")


def test_what_is_no_secret_needs_no_reference() -> None:
    given = {
        "ssl.key.location": "/key.pem",
        "ssl.keystore.location": "/store.p12",
        "sasl.username": "me",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.kerberos.keytab": "/keytab",
        "socket.keepalive.enable": "true",
        "token_provider": "mirror.msk_iam.token",
        "sasl.oauthbearer.config": "region=eu-west-1",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "spark.ssl.keyStore": "/store.p12",
        "spark.ssl.keyStoreType": "PKCS12",
        "spark.authenticate.secret.file": "/secret",
        "spark.network.crypto.keyLength": "256",
        "spark.security.credentials.hive.enabled": "true",
        "spark.kubernetes.executor.secrets.certificates": "/certificates",
        "spark.kubernetes.executor.secretKeyRef.PASSWORD": "passwords:a",
    }
    given |= dict.fromkeys(NO_SECRETS, "a")
    places = ["config.clusters.primary." + key.replace(".", "\\.") for key in given]
    assert rendered(LOCAL, *(f"{place}={value}" for place, value in zip(places, given.values(), strict=True)))


@pytest.mark.parametrize("timeout", ["20s", "0.25 m", "500ms", "0s", "0", r"${env:DRAIN}"])
def test_a_drain_that_ends_in_time_is_no_mistake(timeout: str) -> None:
    assert rendered(LOCAL, f"config.drain_timeout={timeout}")


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"
    icon = b64decode(chart["icon"].removeprefix("data:image/svg+xml;base64,"))
    assert icon == (ROOT / "mirror" / "web" / "page" / "icon.svg").read_bytes().strip()


KUBERNETES = {
    "resources": "ResourceRequirements",
    "podSecurityContext": "PodSecurityContext",
    "securityContext": "SecurityContext",
    "lifecycle": "Lifecycle",
    "dnsConfig": "PodDNSConfig",
}  # values that have all keys of an object of Kubernetes


def test_values_that_are_kubernetes_own_have_the_keys_that_kubernetes_has() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    folder, _ = definitions(NEWEST)
    theirs = json.loads((folder / "_definitions.json").read_text())["$defs"]

    def known(name: str) -> set[str]:
        return set(theirs[f"io.k8s.api.core.v1.{name}"]["properties"])

    for value, name in KUBERNETES.items():
        assert schema["properties"][value]["properties"].keys() == known(name), value
    handlers = {"exec", "grpc", "httpGet", "tcpSocket"}  # the chart's
    assert schema["$defs"]["probe"]["properties"].keys() == known("Probe") - handlers


def test_every_value_is_in_the_schema() -> None:
    def keys(values: Any, schema: Any, at: str) -> Iterator[str]:
        if schema.get("additionalProperties") is False and at[1:] not in KUBERNETES:
            assert values.keys() - {"global"} == schema["properties"].keys() - {"global"}, at
            for key, value in values.items():
                yield f"{at}.{key}"
                yield from keys(value, schema["properties"][key], f"{at}.{key}")

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert len(list(keys(values, json.loads((CHART / "values.schema.json").read_text()), ""))) > 60
