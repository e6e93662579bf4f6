"""What the chart makes of `config`: files that win where they must, restarts where a reload does not suffice, ports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.config.load import load
from mirror.config.reload_effects import EFFECTS, Effect
from tests.harness import helm
from tests.harness.chart import ALL, CHART, CLUSTER, JOB, LOCAL, files, one, rendered
from tests.unit.deploy.test_chart import arguments, executor_pod, policies, service_pod

EXISTING = CHART / "ci" / "existing-values.yaml"
TOKENS = CHART / "ci" / "tokens-values.yaml"


def test_the_chart_knows_which_keys_a_running_service_follows() -> None:
    followed = {
        section: [key for key, effect in keys.items() if effect in (Effect.RELOAD, Effect.PLAN)]
        for section, keys in EFFECTS.items()
    }
    listed = yaml.safe_load((CHART / "files" / "followed.yaml").read_text())
    assert listed == {section: keys for section, keys in followed.items() if keys}


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ("config.flows[0].topics[0]=other", False),
        ("config.flows[0].data_path=records", False),
        ("config.flows[0].groups.sync=true", False),
        ("config.flow_defaults.throttle=1MB", False),
        ("config.flows[0].topic_settings.orders.throttle=1MB", False),
        ("config.log.level=debug", False),
        ("config.drain_timeout=5s", False),
        ("config.metrics.otlp.interval=5s", False),
        ("config.flows[0].compression=zstd", True),
        ("config.flow_defaults.compression=zstd", True),
        ("config.flows[0].heartbeats.enabled=true", True),
        ("config.flows[0].topic_settings.orders.transform=shop.masked", True),
        ("config.flows[1].source=backup,config.flows[1].target=primary,config.flows[1].topics[0]=orders", True),
        (r"config.clusters.primary.linger\.ms=5", True),
        ("config.metrics.labels=topic", True),
        ("config.metrics.otlp.endpoint=http://collector:4318/v1/metrics", True),
        ("config.new.topics=5", True),  # what the chart does not know
    ],
)
def test_a_changed_configuration_takes_a_restart_where_a_reload_does_not_suffice(change: str, restarts: bool) -> None:
    changed = service_pod(LOCAL, *change.split(","))
    assert (changed != service_pod(LOCAL)) is restarts
    always = "restartOnConfigChange=true"
    assert service_pod(LOCAL, always, *change.split(",")) != service_pod(LOCAL, always)


def test_where_the_service_listens_is_the_charts_whatever_a_config_map_says(tmp_path: Path) -> None:
    """The probes and the Service ask there."""
    (tmp_path / "chart.yaml").write_text(files(EXISTING)["chart.yaml"])
    (tmp_path / "address.yaml").write_text(files(EXISTING)["address.yaml"])
    own = yaml.safe_load(one("ConfigMap", JOB, name="rel-mirror")["data"]["mirror.yaml"])
    own["clusters"]["primary"]["sasl.password"] = "secret"
    own["http"] = {"host": "localhost", "port": 1}
    (tmp_path / "flows.yaml").write_text(yaml.safe_dump(own))
    paths = [Path(each) for each in arguments(EXISTING) if each.startswith("/")]
    settings = load(tuple(tmp_path / each.name for each in paths))
    assert (settings.http.host, settings.http.port) == ("::", 9464)
    assert settings.log.format == "json"


def test_an_address_of_ones_own_counts() -> None:
    address = yaml.safe_load(files(LOCAL, "config.http.host=0.0.0.0")["address.yaml"])
    assert address == {"http": {"host": "0.0.0.0", "port": 9464}}


@pytest.mark.parametrize(
    ("values", "nothing"),
    [
        (EXISTING, "config=null"),
        (LOCAL, "config.http=null,config.spark=null,config.drain_timeout=null"),
        (LOCAL, "resources=null"),
        (LOCAL, "resources.requests=null"),
        (CHART / "ci" / "sparkapplication-values.yaml", "resources=null"),
        (LOCAL, "startupProbe=null,livenessProbe=null,readinessProbe=null"),
        (LOCAL, "securityContext=null,podSecurityContext=null"),
    ],
)
def test_a_value_that_is_null_is_not_there(values: Path, nothing: str) -> None:
    (container, *_) = service_pod(values, *nothing.split(","))["spec"]["containers"]
    assert None not in container.values()
    if "Probe" in nothing:
        assert not {"startupProbe", "livenessProbe", "readinessProbe"} & container.keys()


def egress(values: Path, *settings: str) -> list[tuple[set[int], Any]]:
    """The ports and the peers of each rule of the policy for all pods."""
    (policy, *_) = (each for each in rendered(values, *settings) if each["kind"] == "NetworkPolicy")
    return [({port["port"] for port in rule.get("ports", [])}, rule.get("to")) for rule in policy["spec"]["egress"]]


def test_the_ports_of_the_clusters_and_of_their_tokens_are_open() -> None:
    dns, brokers, tokens, _ = egress(TOKENS)
    assert (dns, brokers) == (({53, 5353}, None), ({9092, 9093, 9094, 9098, 9198}, None))
    assert tokens == ({443, 8443}, None), "MSK's provider asks STS; the other cluster's server has a port of its own"
    url = r"config.clusters.backup.sasl\.oauthbearer\.token\.endpoint\.url"
    assert egress(TOKENS, f"{url}=https://login.example/a:1")[2][0] == {443}
    assert egress(TOKENS, f"{url}=http://login.example/")[2][0] == {443, 80}
    servers = r"config.clusters.primary.bootstrap\.servers"
    assert egress(LOCAL, rf"{servers}=[fd00::1]:9999\,b")[1][0] == {9092, 9093, 9094, 9999}
    assert egress(LOCAL, servers + "=${env:SERVERS}")[1][0] == {9092, 9093, 9094}
    assert egress(LOCAL, "networkPolicy.dnsPorts[0]=54")[0][0] == {54}
    assert len(egress(LOCAL)) == 2


def test_tokens_come_from_elsewhere_than_the_brokers() -> None:
    rules = egress(TOKENS, "networkPolicy.brokers[0].ipBlock.cidr=10.0.0.0/8")
    assert [to for _, to in rules[:3]] == [None, [{"ipBlock": {"cidr": "10.0.0.0/8"}}], None]
    assert len(policies(TOKENS)) == 2


def test_executors_can_fetch_tokens_and_read_what_is_mounted() -> None:
    """What an identity of the cloud needs: the account, the labels, the variables and the volumes."""
    for values in (TOKENS, CLUSTER):
        (executor,) = executor_pod(values)["spec"]["containers"]
        (service,) = service_pod(values)["spec"]["containers"]
        assert executor["env"] == [each for each in service["env"] if not each["name"].startswith("POD_")]
        assert executor["envFrom"] == service["envFrom"]
        mounts = [each for each in service["volumeMounts"] if each["name"] not in ("chart", "config")]
        assert executor["volumeMounts"] == mounts
    assert "/etc/authority" in {each["mountPath"] for each in mounts}
    given = yaml.safe_load(TOKENS.read_text())
    check = one("Pod", TOKENS)
    assert check["spec"]["serviceAccountName"] == "rel-mirror"
    assert check["metadata"]["labels"].items() >= given["podLabels"].items()
    assert check["metadata"]["annotations"].items() >= given["podAnnotations"].items()


def test_the_role_is_for_an_account_that_is_named() -> None:
    (subject,) = one("RoleBinding", CLUSTER, "serviceAccount.create=false", "serviceAccount.name=mine")["subjects"]
    assert subject["name"] == "mine"
    assert rendered(CLUSTER, "serviceAccount.create=false", "rbac.create=false")


def test_what_is_set_for_pods_is_set_for_each_of_them() -> None:
    given = yaml.safe_load(ALL.read_text())
    common = ("priorityClassName", "schedulerName", "runtimeClassName", "hostAliases", "dnsPolicy", "dnsConfig")
    pods = [service_pod(ALL), one("Pod", ALL), yaml.safe_load(files(ALL, "mode=cluster")["executor.yaml"])]
    pods.append(one("Job", ALL)["spec"]["template"])  # it validates
    for pod in pods:
        assert {key: pod["spec"].get(key) for key in common} == {key: given[key] for key in common}
    assert service_pod(ALL)["spec"]["containers"][0]["lifecycle"] == given["lifecycle"]
    assert set(given["extraArgs"]) <= set(arguments(ALL))
    assert one("Deployment", ALL)["metadata"]["annotations"] == given["workloadAnnotations"]
    for each in rendered(ALL, "mode=cluster"):
        if each["metadata"]["name"] != "rel-more":  # of the user's own
            labels = each["metadata"]["labels"]
            assert (labels["app.kubernetes.io/part-of"], labels["app.kubernetes.io/name"]) == ("replication", "mirror")
            assert "part-of" not in str(each.get("spec", {}).get("selector")), "a selector can't be changed"


def test_the_users_annotations_win() -> None:
    """The same key twice would be no YAML."""
    pod = service_pod(LOCAL, r"podAnnotations.prometheus\.io/scrape=no", r"podLabels.app\.kubernetes\.io/component=a")
    assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == "no"
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == "9464"
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "service", "the Service finds it by that"


@pytest.mark.parametrize(
    ("setting", "asked"),
    [
        ("metrics.podMonitor.enabled=false", True),
        ("metrics.podMonitor.enabled=true", False),
        ("metrics.serviceMonitor.enabled=true", False),
        ("http.loginSecret=login", False),
        ("metrics.scrapeAnnotations=false", False),
    ],
)
def test_annotations_ask_for_metrics_where_nobody_else_does_and_no_password_is_needed(
    setting: str, asked: bool
) -> None:
    annotations = service_pod(LOCAL, setting)["metadata"]["annotations"]
    assert any(each.startswith("prometheus.io/") for each in annotations) is asked


def test_no_key_comes_twice() -> None:
    class Once(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        keys = [loader.construct_object(key) for key, _ in node.value]
        assert len(keys) == len(set(keys)), (keys, node.start_mark)
        return dict(loader.construct_pairs(node, deep=True))

    Once.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    scraped = ("metrics.scrapeAnnotations=true", "metrics.serviceMonitor.enabled=false", "http.loginSecret=")
    settings = (r"podAnnotations.prometheus\.io/scrape=no", r"commonLabels.release=a", *scraped)
    done = helm.render(CHART, "--values", str(ALL), *(part for each in settings for part in ("--set", each)))
    assert len(list(yaml.load_all(done.stdout, Once))) > 5


def test_metrics_can_be_dropped() -> None:
    for values, kind, key in (
        (ALL, "ServiceMonitor", "endpoints"),
        (CHART / "ci" / "podmonitor-values.yaml", "PodMonitor", "podMetricsEndpoints"),
    ):
        (scrape,) = one(kind, values)["spec"][key]
        assert [each["action"] for each in scrape["metricRelabelings"]] == ["drop"]


def test_with_a_standby_one_pod_may_be_away() -> None:
    standby = CHART / "ci" / "standby-values.yaml"
    budget = one("PodDisruptionBudget", standby)["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "without Kafka neither is ready"
    own = one("PodDisruptionBudget", standby, "podDisruptionBudget.maxUnavailable=0")["spec"]
    assert own["maxUnavailable"] == 0 and "unhealthyPodEvictionPolicy" not in own, "a drain waits for a person"
    alone = "podDisruptionBudget.enabled=true"
    budget = one("PodDisruptionBudget", LOCAL, alone)["spec"]
    assert budget["maxUnavailable"] == 0 and "unhealthyPodEvictionPolicy" not in budget
    own = one("PodDisruptionBudget", LOCAL, alone, "podDisruptionBudget.maxUnavailable=1")
    assert own["spec"]["maxUnavailable"] == 1
