"""The dashboard and the alert rules, against a real Prometheus that scrapes a real run."""

from __future__ import annotations

import functools
import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.programs import program
from tests.harness.prometheus import DASHBOARD, ROOT, RULES, WINDOW, Prometheus, dashboard_panels, without_variables
from tests.harness.service import Service
from tests.harness.waiting import until

pytestmark = pytest.mark.one_path

RULE_TESTS = ROOT / "tests" / "rules" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"


# The service that is scraped often has no series of these; by metric, why, and the module whose tests show them.
WITHOUT_SERIES = {
    "mirror_canary_seconds": "no canary: test_reload",
    "mirror_canary_timestamp_seconds": "no canary: test_reload",
    "mirror_certificate_expiry_timestamp_seconds": "no certificates: test_reading",
    "mirror_flow_throttle_bytes_per_second": "no throttle: test_reload",
    "mirror_group_lag": "no groups: test_reload",
    "mirror_group_partitions": "no groups: test_reload",
    "mirror_group_synced_timestamp_seconds": "no group sync: test_group_sync",
    "mirror_record_path_partitions": "no flow with whole batches: test_data_path",
    "mirror_retention_remaining_seconds": "no lag: test_pause",
    "mirror_retention_used_ratio": "no lag: test_pause",
    "mirror_topic_acl_round_timestamp_seconds": "ACL sync is off: test_topic_acls",
    "mirror_topic_acls": "ACL sync is off: test_topic_acls",
    "mirror_topic_throttle_bytes_per_second": "no throttle: test_reload",
    "mirror_verify_differences": "nobody has compared the whole flow: test_secured",
    "mirror_verify_equal": "nobody has compared the whole flow: test_secured",
    "mirror_verify_timestamp_seconds": "nobody has compared the whole flow: test_secured",
}


def has_series(expression: str) -> bool:
    """True if the service that is scraped has the metrics of an expression."""
    return not WITHOUT_SERIES.keys() & set(re.findall(r"\bmirror_\w+", expression))


def alerts() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    return rules


def test_rules_and_their_unit_tests() -> None:
    promtool = program("promtool", "prometheus")
    for command in (["check", "rules", str(RULES)], ["test", "rules", str(RULE_TESTS)]):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_and_has_a_runbook() -> None:
    cases = [case for test in yaml.safe_load(RULE_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    for rule in alerts():
        name = rule["alert"]
        assert {bool(case["exp_alerts"]) for case in cases if case["alertname"] == name} == {True, False}, name
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{name}.md")
        assert (RUNBOOKS / f"{name}.md").read_text().startswith(f"# {name}\n")
    assert {page.stem for page in RUNBOOKS.glob("Mirror*.md")} == {rule["alert"] for rule in alerts()}


@pytest.fixture(scope="module")
def prometheus(local_service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with Prometheus(tmp_path_factory.mktemp("prometheus"), local_service.port) as running:
        yield running


def test_every_query_of_the_dashboard_has_data(shared: Pair, local_service: Service, prometheus: Prometheus) -> None:
    topic = shared.topic("watched", 3)
    queries = {
        (panel["title"], target["refId"]): without_variables(target["expr"], WINDOW)
        for panel in dashboard_panels()
        for target in panel["targets"]
        if has_series(target["expr"])
    }
    empty = dict.fromkeys(queries)
    with Load(shared.source, {topic: 3}, rate=300):

        def has_data(expression: str) -> bool:
            return any(not math.isnan(value) for _, value in prometheus.query(expression))

        def all_have() -> bool:
            for key in [key for key in empty if has_data(queries[key])]:
                del empty[key]
            return not empty

        try:
            local_service.wait_for("every query has data", all_have)
        except AssertionError as error:
            scrapes = prometheus.query("min_over_time(up[2m])"), prometheus.query("scrape_duration_seconds")
            raise AssertionError(f"no data: {[(key, queries[key]) for key in empty]}; {scrapes}") from error
        # What was found so far may all be of topics that other tests have left.
        rates = f'sum by (partition) (rate(mirror_source_records_total{{topic="{topic}"}}[{WINDOW}]))'
        until("the topic's rates", lambda: {of["partition"] for of, _ in prometheus.query(rates)} == {"0", "1", "2"})
        lag = f'max(mirror_source_topic_partition_lag_seconds{{topic="{topic}"}}) < 60'
        until("little lag", lambda: prometheus.query(lag))
    shared.await_same(topic)


def test_every_variable_of_the_dashboard_finds_values(shared: Pair, prometheus: Prometheus) -> None:
    shared.await_same(shared.topic("listed"))
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            definition = without_variables(variable["query"]["query"], WINDOW)
            parts = re.fullmatch(r"label_values\((.*), (\w+)\)", definition)
            assert parts and parts[2] == variable["name"]
            count = f"count by ({parts[2]}) ({parts[1]})"
            until(f"values of {definition}", functools.partial(prometheus.query, count))


def test_the_dashboards_metrics_and_those_of_the_alerts_exist(prometheus: Prometheus, local_service: Service) -> None:
    """An expression with a wrong name is valid, and silent for ever."""
    texts = [target["expr"] for panel in dashboard_panels() for target in panel["targets"]]
    texts += [rule["expr"] for rule in alerts()]
    names = {name for text in texts for name in re.findall(r"\b(?:mirror|process)_\w+", text)}
    assert len(names) > 20
    for name in names - WITHOUT_SERIES.keys():
        until(f"series of {name}", functools.partial(prometheus.query, f"count({name})"))
    declared = set(re.findall(r"^# HELP (\S+)", local_service.get("/metrics")[1], re.MULTILINE))
    assert WITHOUT_SERIES.keys() <= declared


def test_a_metric_without_series_here_has_some_elsewhere() -> None:
    for metric, why in WITHOUT_SERIES.items():
        assert metric in (Path(__file__).parent / f"{why.split(': ')[1]}.py").read_text(), metric


def test_the_rules_are_evaluated_and_none_is_broken(prometheus: Prometheus) -> None:
    until("all rules evaluated", lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()))
    assert {rule["name"] for rule in prometheus.rules()} == {rule["alert"] for rule in alerts()}
    assert [rule["lastError"] for rule in prometheus.rules() if rule["health"] != "ok"] == []


def test_a_runbook_names_only_what_exists() -> None:
    """Metrics and files that a runbook sends people to."""
    source = "".join(path.read_text() for path in (ROOT / "mirror").rglob("*.py"))
    for page in RUNBOOKS.glob("*.md"):
        text = page.read_text()
        for metric in re.findall(r"`(mirror_\w+)", text):
            assert re.sub(r"_total$", "", metric) in source, f"{page.name}: {metric}"
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (Path(page).parent / link).exists(), f"{page.name}: {link}"
