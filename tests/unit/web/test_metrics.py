"""What Prometheus scrapes."""

from __future__ import annotations

import json
import math
import re
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from mirror.control.reports import Counters, Report
from mirror.control.throttle_shares import OF_FLOW
from mirror.control.verification import Verification
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_rounds import Round
from mirror.model import Partition
from mirror.service_settings import Http
from mirror.status.canary import CanaryStatus
from mirror.status.cluster_status import ClusterStatus
from mirror.status.configuration import ConfigurationStatus
from mirror.status.coverage import coverage
from mirror.status.flow_status import PARTITION_STATES, FlowStatus
from mirror.timing import SILENCE
from mirror.topics.acl_rounds import AclRound
from mirror.topics.acl_sync import AclOutcome
from mirror.topics.config_rounds import ConfigRound
from mirror.topics.config_sync import ConfigOutcome
from mirror.web.metrics.rounds import SERIES_MAX
from mirror.web.metrics.scrape import Metrics
from mirror.web.server import WebServer, metrics
from tests.unit.control.test_reports import NOW, report
from tests.unit.status.test_acl_overview import acl_round
from tests.unit.status.test_config_overview import config_round
from tests.unit.status.test_group_overview import stands

ROOT = Path(__file__).parents[3]
LAG, LAG_SECONDS = "mirror_source_topic_partition_lag", "mirror_source_topic_partition_lag_seconds"
EXPIRY = "mirror_certificate_expiry_timestamp_seconds"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, ...], float]


def samples(metrics: Metrics, name: str) -> Samples:
    """The samples of a metric, by the values of their labels without source and target."""
    found = {}
    for family in metrics.collect():
        for sample in family.samples:
            if sample.name == name:
                found[tuple(v for k, v in sample.labels.items() if k not in ("source", "target"))] = sample.value
    return found


def behind(partition: int, lag: int, since: float, **values: object) -> Report:
    return replace(report(10, partition), lag=lag, behind_since=since, **values)  # type: ignore[arg-type]


def scraped(status: FlowStatus) -> dict[str, float]:
    """Sums over labels, by sample name."""
    sums: dict[str, float] = {}
    for metric in Metrics([status]).collect():
        for sample in metric.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def test_counters_do_not_go_back_when_a_partition_changes_hands() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([report(10), report(25)])
    assert scraped(status)["mirror_source_records_total"] == 25
    status.absorb([report(3, incarnation="two")])
    assert scraped(status)["mirror_source_records_total"] == 28
    status.absorb([report(5, incarnation="two"), report(1, partition=1)])
    assert scraped(status)["mirror_source_records_total"] == 31
    assert scraped(status)["mirror_source_bytes_total"] == 310
    status.absorb([report(25)])  # late, of the first incarnation: old
    assert scraped(status)["mirror_source_records_total"] == 31


def test_a_reload_that_fails_is_told_until_one_succeeds() -> None:
    configuration = ConfigurationStatus()
    metrics = Metrics([], configuration=configuration)
    began = configuration.view.succeeded_at
    successful, succeeded = (f"mirror_config_last_reload_success{end}" for end in ("ful", "_timestamp_seconds"))
    assert samples(metrics, successful) == {(): 1} and time.time() - began < 60
    assert samples(metrics, "mirror_config_restart_needed") == {(): 0}
    configuration.failed("a.yaml:1: no")
    assert samples(metrics, successful) == {(): 0} and samples(metrics, succeeded) == {(): began}
    configuration.reloaded(("http.port",))
    assert samples(metrics, successful) == {(): 1} and samples(metrics, succeeded)[()] > began
    assert samples(metrics, "mirror_config_restart_needed") == {(): 1}


def test_prometheus_buckets_are_cumulative() -> None:
    status = FlowStatus("primary", "backup", "us")
    counters = Counters()
    counters.copied([NOW, NOW - 15, NOW - 3_000, NOW - 10**7], 0, NOW)
    status.absorb([replace(report(), counters=counters)])
    (family,) = [m for m in Metrics([status]).collect() if m.name == "mirror_source_replication_latency_seconds"]
    buckets = {float(s.labels["le"]): s.value for s in family.samples if s.name.endswith("_bucket")}
    assert (buckets[0.001], buckets[0.01], buckets[0.02], buckets[5.0], buckets[600.0], buckets[math.inf]) == (
        1, 1, 2, 3, 3, 4,
    )  # fmt: skip
    assert list(buckets.values()) == sorted(buckets.values())


def test_what_is_not_known_yet_is_no_sample() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([behind(0, -1, -1.0, last_commit=0.0)])
    assert not {LAG, LAG_SECONDS, "mirror_last_commit_timestamp_seconds"} & scraped(status).keys()


@pytest.fixture
def status() -> FlowStatus:
    """Three partitions reported, of which two are behind; a fourth is planned only."""
    status = FlowStatus("primary", "backup", "us")
    status.planned(7, [[Partition("topic", number) for number in range(3)], [Partition("other", 0)]])
    now = time.time()
    behind_two = behind(2, 2, now - 400, state="retrying", next_timestamp=now - 400)
    status.absorb([behind(0, 5, now - 50, path_reason="compacted"), behind(1, 0, 0.0, last_commit=9.0), behind_two])
    status.throttles = {OF_FLOW: 5_000, "topic": 2_000}
    status.groups = Round(
        77.0, [stands("billing", 0), stands("billing", 1, GroupOutcome.AHEAD, 0)], True, synced_at={"billing": 66.0}
    )
    status.configs = config_round(("topic", ConfigOutcome.IN_STEP))
    status.acls = acl_round(*AclOutcome)
    status.coverage = coverage({"topic": 3, "other": 1}, {"topic": 3})
    status.retired = 2
    status.keep_retention({"topic": 86_400.0})
    status.verified = Verification(9.0, False, 100, 3, 0)
    status.canary = CanaryStatus("mirror-canary.primary.internal", 9.0, 0.25, "")
    return status


def test_groups_have_a_lag_and_outcomes(status: FlowStatus) -> None:
    metrics = Metrics([status], "topic")
    assert samples(metrics, "mirror_group_lag") == {("billing",): 5}
    outcomes = samples(metrics, "mirror_group_partitions")
    assert {key: value for key, value in outcomes.items() if value} == {
        ("billing", "exact"): 1,
        ("billing", "ahead"): 1,
    }
    assert len(outcomes) == len(GroupOutcome)
    assert samples(metrics, "mirror_group_round_timestamp_seconds") == {(): 77}
    assert samples(metrics, "mirror_group_synced_timestamp_seconds") == {("billing",): 66}
    status.groups = None
    assert not samples(metrics, "mirror_group_round_timestamp_seconds"), "who does not lead makes no rounds"


def test_groups_beyond_a_thousand_have_one_series_for_each_outcome(status: FlowStatus) -> None:
    """Clients may take another group at each start. The last of these is the one without a name: see the sum."""
    names = ["", *(f"g{number:04}" for number in range(SERIES_MAX + 1))]
    metrics = Metrics([status])
    status.groups = Round(77.0, [stands(name, 0) for name in names[:SERIES_MAX]], True)
    assert samples(metrics, "mirror_groups_without_series") == {(): 0}
    assert samples(metrics, "mirror_group_lag").keys() == {(name,) for name in names[:SERIES_MAX]}
    status.groups = Round(77.0, [stands(name, number) for number in range(2) for name in names], True)
    assert samples(metrics, "mirror_groups_without_series") == {(): 2}
    assert samples(metrics, "mirror_group_lag").keys() == {(name,) for name in names[1:-1]}
    partitions = samples(metrics, "mirror_group_partitions")
    assert len(partitions) == len(GroupOutcome) * (SERIES_MAX + 1)
    assert partitions["", "exact"] == 4 and partitions["", "denied"] == 0
    assert sum(partitions.values()) == 2 * len(names), "sums over all groups stay right"


def test_configurations_have_outcomes_and_a_count_of_changes(status: FlowStatus) -> None:
    status.configs = config_round(
        ("a", ConfigOutcome.ALTERED), ("b", ConfigOutcome.IN_STEP), ("c", ConfigOutcome.IN_STEP)
    )
    metrics = Metrics([status])
    outcomes = {"in_step": 2, "altered": 1, "different": 0, "hidden": 0}
    assert samples(metrics, "mirror_topic_configs") == {(each,): count for each, count in outcomes.items()}
    assert samples(metrics, "mirror_topic_config_changes_total") == {(): 7}
    assert samples(metrics, "mirror_topic_config_round_timestamp_seconds") == {(): 88}
    status.configs = None
    assert not samples(metrics, "mirror_topic_configs")


def test_acls_have_outcomes(status: FlowStatus) -> None:
    metrics = Metrics([status])
    assert samples(metrics, "mirror_topic_acls") == {(each.value,): 1 for each in AclOutcome}
    assert samples(metrics, "mirror_topic_acl_round_timestamp_seconds") == {(): 99}
    status.acls = None
    assert not samples(metrics, "mirror_topic_acls")


def test_rounds_of_which_none_has_ended_have_the_time_since_when_they_are_tried(status: FlowStatus) -> None:
    status.groups = Round(5.0, (), True, has_ended=False, problem="it is denied")
    status.configs = ConfigRound(6.0, (), (), 0, has_ended=False)
    status.acls = AclRound(7.0, (), has_ended=False, problem="it is denied")
    metrics = Metrics([status])
    for what, at in (("group", 5), ("topic_config", 6), ("topic_acl", 7)):
        assert samples(metrics, f"mirror_{what}_round_timestamp_seconds") == {(): at}
    for name in ("mirror_group_partitions", "mirror_topic_configs", "mirror_topic_acls"):
        assert not samples(metrics, name), "nothing is known yet"
    status.acls = replace(acl_round(*AclOutcome), problem="it is denied")
    assert samples(metrics, "mirror_topic_acls") and samples(metrics, "mirror_topic_acl_round_timestamp_seconds")


def test_lag_is_known_in_records_and_seconds(status: FlowStatus) -> None:
    metrics = Metrics([status])
    assert samples(metrics, LAG) == {("topic", "0"): 5, ("topic", "1"): 0, ("topic", "2"): 2}
    seconds = samples(metrics, LAG_SECONDS)
    assert seconds[("topic", "1")] == 0
    assert seconds == pytest.approx({("topic", "0"): 50, ("topic", "1"): 0, ("topic", "2"): 400}, abs=30)


def test_a_stable_offset_that_is_stuck_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    status = FlowStatus("primary", "backup", "us")
    now = time.time()
    status.absorb(
        [behind(0, 0, 0.0, stuck_since=now - 400), behind(1, 0, 0.0), behind(2, 0, 0.0, stuck_since=now - 20)]
    )
    stuck = "mirror_source_stable_offset_stuck_seconds"
    assert samples(Metrics([status]), stuck) == pytest.approx(
        {("topic", "0"): 400, ("topic", "1"): 0, ("topic", "2"): 20}, abs=15
    )
    assert samples(Metrics([status], "topic"), stuck) == pytest.approx({("topic",): 400}, abs=15)
    later = time.monotonic() + SILENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not samples(Metrics([status]), stuck), "of what no task reports any more nobody knows"


def test_what_the_flow_selects_stands_beside_what_the_target_has(status: FlowStatus) -> None:
    status.coverage = coverage({"a": 3, "b": 2, "c": 1}, {"a": 4, "b": 1})
    metrics = Metrics([status])
    assert samples(metrics, "mirror_flow_topics") == {("source",): 3, ("target",): 2}
    assert samples(metrics, "mirror_flow_partitions") == {("source",): 6, ("target",): 4}, "grown ones hide no gap"
    assert samples(metrics, "mirror_retired_topics") == {(): 2}
    status.coverage = status.retired = None
    assert not samples(metrics, "mirror_flow_partitions") and not samples(metrics, "mirror_retired_topics")


def test_the_partition_that_retention_overtakes_next_counts() -> None:
    status = FlowStatus("primary", "backup", "us")
    now = time.time()
    status.absorb([behind(0, 5, now, next_timestamp=now - 100), behind(1, 5, now, next_timestamp=now - 300)])
    metrics = Metrics([status])
    left, used = "mirror_retention_remaining_seconds", "mirror_retention_used_ratio"
    assert not samples(metrics, left), "the source's retention is not known"
    status.keep_retention({"topic": 1_000.0})
    assert samples(metrics, left) == pytest.approx({(): 700}, abs=30)
    assert samples(metrics, used) == pytest.approx({(): 0.3}, abs=0.03)
    status.absorb([behind(0, 0, 0.0, next_timestamp=0.0), behind(1, 0, 0.0, next_timestamp=0.0)])
    assert not samples(metrics, left), "without lag nothing is at stake"


def test_offsets_of_somebody_else_are_counted() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([replace(report(10), counters=Counters(records=10, foreign=3))])
    assert samples(Metrics([status]), "mirror_foreign_offsets_total") == {("topic", "0"): 3}


def test_the_last_comparison_of_the_flow_is_told(status: FlowStatus) -> None:
    metrics = Metrics([status])
    names = [f"mirror_verify_{name}" for name in ("timestamp_seconds", "equal", "differences")]
    assert [samples(metrics, name) for name in names] == [{(): 9.0}, {(): 0}, {(): 3}]
    status.verified = None
    assert not any(samples(metrics, name) for name in names), "nobody has compared"


def test_the_last_canary_is_told_with_the_time_that_it_took(status: FlowStatus) -> None:
    metrics, at, took = Metrics([status]), "mirror_canary_timestamp_seconds", "mirror_canary_seconds"
    assert (samples(metrics, at), samples(metrics, took)) == ({(): 9.0}, {(): 0.25})
    status.canary = CanaryStatus("mirror-canary.primary.internal", 8.0, None, "")
    assert (samples(metrics, at), samples(metrics, took)) == ({(): 8.0}, {}), "none has arrived yet"
    status.canary = None
    assert not samples(metrics, at)


CLUSTERS = (
    ClusterStatus("primary", True, certificates={"ca": 2e9}),
    ClusterStatus("backup", False, "refused", authentication_errors=3),
    ClusterStatus("new"),
)


def test_a_cluster_that_two_flows_share_has_one_series(status: FlowStatus) -> None:
    back = FlowStatus("backup", "primary", "us")
    metrics = Metrics([status, back], clusters=CLUSTERS)
    reachable = samples(metrics, "mirror_cluster_reachable")
    assert reachable == {("primary",): 1, ("backup",): 0}, "of the new one nothing is known yet"
    errors = samples(metrics, "mirror_authentication_errors_total")
    assert errors == {("primary",): 0, ("backup",): 3, ("new",): 0}
    assert samples(metrics, EXPIRY) == {("primary", "ca"): 2e9}


def test_the_certificate_of_the_http_server_has_no_cluster() -> None:
    expires: list[float | None] = [3e9]
    metrics = Metrics([], clusters=CLUSTERS, http_expiry=lambda: expires[-1])
    assert samples(metrics, EXPIRY) == {("primary", "ca"): 2e9, ("", "http"): 3e9}
    expires.append(None)
    assert samples(metrics, EXPIRY).keys() == {("primary", "ca")}, "it has none"


def test_partitions_without_a_lag_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lag of a topic is the sum of those that are known: it does not show that one is missing."""
    status = FlowStatus("primary", "backup", "us")
    status.absorb([behind(0, 5, 1.0), behind(1, -1, -1.0), behind(2, -1, -1.0, state="released")])
    for labels in ("partition", "topic"):
        assert samples(Metrics([status], labels), "mirror_lag_unknown_partitions") == {("topic",): 1}
    later = time.monotonic() + SILENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert samples(Metrics([status]), "mirror_lag_unknown_partitions") == {("topic",): 0}, "no task reports it"


def test_lost_tasks_are_counted_for_the_flow(status: FlowStatus) -> None:
    assert samples(Metrics([status]), "mirror_lost_tasks_total") == {(): 0}
    status.lost_tasks += 2
    assert samples(Metrics([status]), "mirror_lost_tasks_total") == {(): 2}


def test_a_big_cluster_has_a_series_for_each_topic(status: FlowStatus) -> None:
    metrics = Metrics([status], "topic")
    assert samples(metrics, LAG) == {("topic",): 7}
    assert samples(metrics, LAG_SECONDS)[("topic",)] == pytest.approx(400, abs=30)
    assert samples(metrics, "mirror_source_records_total") == {("topic",): 30, ("other",): 0}
    assert samples(metrics, "mirror_last_commit_timestamp_seconds") == {("topic",): 9.0}
    assert set(samples(metrics, "mirror_report_age_seconds")) == {("topic",), ("other",)}
    assert not any("partition" in sample.labels for family in metrics.collect() for sample in family.samples)


def test_partitions_by_state(status: FlowStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    def states(topic: str) -> dict[str, float]:
        found = samples(Metrics([status]), "mirror_partitions")
        return {state: count for (name, state), count in found.items() if name == topic and count}

    assert states("topic") == {"running": 2, "retrying": 1}
    assert states("other") == {"unassigned": 1}
    status.absorb([behind(1, 0, 0.0, state="released")])
    assert states("topic") == {"running": 1, "retrying": 1, "unassigned": 1}
    later = time.monotonic() + SILENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert states("topic") == {"unassigned": 3}
    ages = samples(Metrics([status]), "mirror_report_age_seconds")
    assert len(ages) == 4 and min(ages.values()) > SILENCE, "planned but never reported counts too"


def test_the_flows_state_is_one_of_them(status: FlowStatus) -> None:
    def state() -> list[str]:
        found = samples(Metrics([status]), "mirror_flow_state")
        return [name for (name,), value in found.items() if value]

    assert state() == ["starting"]
    status.active = status.leads = True
    status.tell_problem("")
    assert state() == ["running"]
    assert samples(Metrics([status]), "mirror_flow_leader") == {(): 1}
    assert samples(Metrics([status]), "mirror_flow_generation") == {(): 7}
    assert samples(Metrics([status]), "mirror_flow_tasks") == {(): 2}
    status.tell_problem("cluster backup does not answer")
    assert state() == ["retrying"]
    status.tell_problem("another flow copies it", blocked=True)
    assert state() == ["blocked"]
    status.stopped = True
    assert state() == ["stopped"]


def test_what_never_happened_is_there_as_zero(status: FlowStatus) -> None:
    """Prometheus sees an increase to one only if it has seen zero before."""
    metrics = Metrics([status])
    assert samples(metrics, "mirror_lost_offsets_total")[("other", "0", "truncated")] == 0
    assert samples(metrics, "mirror_transactions_total")[("topic", "0", "unknown")] == 0
    assert samples(metrics, "mirror_fenced_producers_total")[("topic", "0")] == 0
    assert samples(metrics, "mirror_retries_total")[("topic", "0")] == 0


def test_each_metric_is_declared_once_with_help(status: FlowStatus) -> None:
    families = list(Metrics([status], clusters=CLUSTERS).collect())
    names = [family.name for family in families]
    assert len(set(names)) == len(names) > 15
    for family in families:
        assert family.documentation.endswith(".") and family.samples, family.name
        for unit in ("seconds", "bytes", "records", "offsets"):
            assert not family.name.endswith(f"_{unit}") or family.unit == unit, family.name


def test_each_metric_that_a_document_names_exists(status: FlowStatus) -> None:
    """docs/metrics.md has all of them, made from the code; whoever names one elsewhere must name it right."""
    assert "<!-- generated: metrics -->" in (ROOT / "docs" / "metrics.md").read_text()
    families = list(Metrics([status], clusters=CLUSTERS).collect())
    exposed = {sample.name for family in families for sample in family.samples} | {family.name for family in families}
    named: dict[str, str] = {}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        named |= dict.fromkeys(re.findall(r"`(mirror_[a-z_]+)(?=[`{])", page.read_text()), page.name)
    assert len(named) > 10
    assert {name: page for name, page in named.items() if name not in exposed} == {}


def test_the_dashboard_shows_each_metric(status: FlowStatus) -> None:
    panels = json.loads((ROOT / "deploy" / "grafana" / "mirror.json").read_text())["panels"]
    asked = " ".join(target["expr"] for panel in panels for target in panel.get("targets", ()))
    shown = {re.sub(r"_(total|bucket|sum|count|info)$", "", name) for name in re.findall(r"\bmirror_\w+", asked)}
    metrics = {family.name for family in Metrics([status], clusters=CLUSTERS).collect()}
    assert shown == metrics


@pytest.fixture
def url(status: FlowStatus) -> Iterator[str]:
    server = WebServer(Http("127.0.0.1", 0), {"/metrics": metrics(Metrics([status]).registry)})
    yield f"http://127.0.0.1:{server.port}/metrics"
    server.stop()


def test_both_formats_say_the_same(url: str) -> None:
    def get(accept: str) -> tuple[str, str]:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    kind, text = get("text/plain")
    assert kind.startswith("text/plain")
    open_kind, open_text = get(OPENMETRICS)
    assert open_kind.startswith("application/openmetrics-text")
    steady = ("mirror_source", "mirror_transaction", "mirror_partitions", "mirror_flow", "mirror_lost")

    def values(families: object) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        found = {}
        for family in families:  # type: ignore[attr-defined]
            for s in family.samples:
                if s.name.startswith(steady) and s.name != LAG_SECONDS:
                    found[s.name, tuple(sorted(s.labels.items()))] = s.value
        return found

    assert values(text_families(text)) == values(openmetrics_families(open_text))  # type: ignore[no-untyped-call]


def test_throttles_and_whom_they_slow_down() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([behind(0, 5, 1.0, throttled=True), behind(1, 5, 1.0, throttled_by=("target",)), behind(2, 5, 1.0)])
    by_topic, of_flow = "mirror_topic_throttle_bytes_per_second", "mirror_flow_throttle_bytes_per_second"
    found = Metrics([status])
    assert not samples(found, by_topic) and not samples(found, of_flow)
    assert samples(found, "mirror_throttled_partitions") == {
        ("topic", "source"): 0, ("topic", "target"): 1, ("topic", "throttle"): 1,
    }  # fmt: skip
    status.throttles = {OF_FLOW: 5_000, "topic": 2_000, "other": 1_000}
    assert samples(found, by_topic) == {("topic",): 2_000} and samples(found, of_flow) == {(): 5_000}
    waited = [replace(each, counters=replace(each.counters, throttled=2.5)) for each in (report(10), report(10, 1))]
    status.absorb(waited)
    assert sum(samples(found, "mirror_throttle_wait_seconds_total").values()) == 5.0


def test_why_partitions_take_the_record_path() -> None:
    """A report may say anything. Only what is known becomes a label."""
    status = FlowStatus("primary", "backup", "us")
    reasons = ["compacted", "", "too_large", "compacted", "../etc", "a newer one"]
    status.absorb([replace(behind(n, 5, 1.0), path_reason=reason) for n, reason in enumerate(reasons)])
    assert samples(Metrics([status]), "mirror_record_path_partitions") == {
        ("topic", "compacted"): 2, ("topic", "too_large"): 1, ("topic", "other"): 2,
    }  # fmt: skip


def test_a_state_that_is_not_known_makes_no_series_of_its_own() -> None:
    """Whoever may write to the status topic could make new ones at each scrape."""
    status = FlowStatus("primary", "backup", "us")
    states = ["running", "s1", "s2", "blocked"]
    status.absorb([replace(behind(n, 5, 1.0), state=state) for n, state in enumerate(states)])
    found = samples(Metrics([status]), "mirror_partitions")
    assert {state: count for (_, state), count in found.items() if count} == {"running": 1, "blocked": 1, "other": 2}
    assert {state for _, state in found} == {*PARTITION_STATES, "other"}


def test_how_many_partitions_take_each_data_path() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.absorb([replace(behind(0, 5, 1.0), path="batches"), behind(1, 5, 1.0), replace(behind(2, 5, 1.0), path="?")])
    assert samples(Metrics([status]), "mirror_data_path_partitions") == {
        ("topic", "records"): 1, ("topic", "batches"): 1,
    }  # fmt: skip
