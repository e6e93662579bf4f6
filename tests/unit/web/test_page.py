"""The status page and `/status`, from what a flow's tasks report."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from mirror.control.reports import Report
from mirror.control.verification import Verification
from mirror.groups.group_choice import GroupOutcome
from mirror.groups.group_rounds import Round
from mirror.model import Partition
from mirror.service_settings import Http
from mirror.status.canary import LATE, CanaryStatus
from mirror.status.cluster_status import ClusterStatus
from mirror.status.configuration import ConfigurationView
from mirror.status.coverage import coverage
from mirror.status.flow_status import FlowStatus
from mirror.status.overview import overview
from mirror.topics import config_sync
from mirror.topics.acl_rules import UNNAMED
from mirror.topics.acl_sync import AclOutcome
from mirror.web.page import FILES, files, page
from mirror.web.page.acls import ACLS_MAX
from mirror.web.page.configs import CONFIGS_MAX
from mirror.web.page.groups import GROUPS_MAX
from mirror.web.page.render import ROWS_MAX
from mirror.web.page.stopped import LISTED_MAX
from mirror.web.server import Request, WebServer
from tests.unit.control.test_reports import report
from tests.unit.status.test_acl_overview import acl_round
from tests.unit.status.test_config_overview import config_round
from tests.unit.status.test_group_overview import stands

READ = ConfigurationView(0.0)
EVIL = "\"><script>alert(1)</script>&<b x='"


def of(topic: str, partition: int, **values: object) -> Report:
    """A report without lag, unless `values` say otherwise."""
    calm = {"partition": Partition(topic, partition), "lag": 0, "behind_since": 0.0}
    return replace(report(10, partition), **{**calm, **values})  # type: ignore[arg-type]


def running(*reports: Report) -> FlowStatus:
    status = FlowStatus("primary", "backup", "us")
    status.planned(3, [[each.partition for each in reports]])
    status.active = True
    status.tell_problem("")
    status.absorb(reports)
    return status


@pytest.fixture(autouse=True)
def _the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages are shown to the second."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


class Parsed(HTMLParser):
    """What a browser would make of it: elements with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data + " "

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def shown(*flows: FlowStatus, opened: tuple[str, ...] = ()) -> Parsed:
    return Parsed(page(overview(flows, READ), Request({"open": list(opened)}, "")).body.decode())


def test_a_running_flow_is_there_as_a_table() -> None:
    status = running(of("orders", 0, position=1234), of("orders", 1, lag=7, behind_since=time.time() - 90))
    html = shown(status)
    assert "primary → backup" in " ".join(html.text.split())
    assert [row["scope"] for row in html.all("th")].count("row") == 2
    for word in ("orders", "1234", "running", "2 partitions", "the oldest waits 90 s"):
        assert word in html.text, word
    assert not [a for a in html.all("div") if "stopped-by-error" in (a.get("class") or "")]


def test_a_blocked_partition_comes_first_with_its_reason() -> None:
    reason = "the record at offset 10 is too large for primary.zebra"
    html = shown(running(of("ant", 0), of("zebra", 0), of("zebra", 3, state="blocked", reason=reason)))
    assert "1 partition blocked" in html.text and reason in html.text
    assert [d["id"] for d in html.all("details")] == ["primary->backup/zebra", "primary->backup/ant"]
    assert html.text.index(reason) < html.text.index("ant"), "before all topics"
    assert "mirror: 1 partition blocked" in html.text, "the title too"


def test_blocked_and_retrying_partitions_are_told_apart() -> None:
    blocked, retrying = (
        of("zebra", 3, state="blocked", reason="too large"),
        of("ant", 0, state="retrying", reason="away"),
    )
    html = shown(running(retrying, of("bee", 0), blocked))
    classes = [a.get("class") for a in html.all("div")]
    assert [each for each in classes if (each or "").startswith("stopped-by-error")] == [
        "stopped-by-error blocked",
        "stopped-by-error retrying",
    ]
    assert "mirror: 1 partition blocked, 1 partition retrying" in html.text
    assert html.text.index("A person has to act") < html.text.index("They try again")
    assert [d["id"].rpartition("/")[2] for d in html.all("details") if d["id"]] == ["zebra", "ant", "bee"]


def test_a_blocked_flow_says_that_a_person_has_to_act() -> None:
    status = running(of("orders", 0))
    status.tell_problem("flow a->b conflicts with flow b->a", blocked=True)
    html = shown(status)
    assert "The flow waits for a person: flow a->b conflicts with flow b->a" in html.text
    assert "problem blocked" in [a.get("class") for a in html.all("p")]


def test_what_is_held_back_on_the_source_is_told_without_opening_its_topic() -> None:
    reason = "1,000 offsets are held back by an open transaction on the source since 2026-01-31 12:00:00Z"
    html = shown(running(of("ant", 0), of("zebra", 0), of("zebra", 3, held_back=1_000, reason=reason)))
    told = html.text.split("Replication latency")[0]
    assert "1 partition held back by open transactions on primary" in told and reason in told and "zebra-3" in told
    assert "mirror: running" in html.text, "the flow does what it can"
    assert "held back" not in shown(running(of("zebra", 3, reason="slowed down by a quota"))).text
    (flow,) = json.loads(overview([running(of("zebra", 3, held_back=7))], READ).json())["flows"]
    assert flow["topics"][0]["partitions"][0]["held_back"] == 7


def test_the_data_path_is_told_where_it_is_not_as_it_always_is() -> None:
    now = time.time()
    reports = (
        of("ant", 0, path="batches", path_since=now - 60),
        of("ant", 1, path_since=now - 60, path_reason=EVIL),
        of("ant", 2, path_since=now - 60),
    )
    html = shown(running(*reports))
    assert re.search(r"batch path for \d+ s ", html.text) and re.search(
        rf"record path for \d+ s: {re.escape(EVIL)}", html.text
    )
    assert html.text.count(" path for ") == 2
    (flow,) = json.loads(overview([running(*reports)], READ).json())["flows"]
    told = [(each["path"], each["path_reason"]) for each in flow["topics"][0]["partitions"]]
    assert told == [("batches", ""), ("records", EVIL), ("records", "")]


def test_groups_are_there_and_those_that_are_not_exact_come_first() -> None:
    status = running(of("orders", 0))
    assert "consumer group" not in shown(status).text
    found = [stands("billing", 0), stands(EVIL, 0, GroupOutcome.UNTRANSLATED), stands("shipping", 0)]
    status.groups = Round(time.time() - 30, found, True, synced_at={"billing": time.time() - 90})
    html = shown(status, opened=("groups primary->backup",))
    assert html.text.count("90 s ago") == 1, "only of a group that was in step"
    assert "3 consumer groups" in html.text and "1 not exact everywhere" in html.text
    assert "orders-0: it is untranslated" in html.text
    assert html.text.index(EVIL) < html.text.index("billing") < html.text.index("shipping")
    assert [d["id"] for d in html.all("details") if "open" in d] == ["groups primary->backup"]
    (flow,) = json.loads(overview([status], READ).json())["flows"]
    assert flow["groups"]["groups"][0]["partitions_by_outcome"]["untranslated"] == 1
    status.groups = Round(time.time(), [stands(f"g{n}", 0) for n in range(GROUPS_MAX + 7)], False)
    html = shown(status)
    assert "and 7 more" in html.text and f"{GROUPS_MAX + 7} consumer groups" in html.text
    status.groups = Round(time.time(), [], False, left_out={EVIL: "a share group"})
    html = shown(status)
    assert "0 consumer groups" in html.text and "1 left out" in html.text
    assert html.text.index(EVIL) < html.text.index("a share group")


def test_configurations_that_are_not_in_step_are_there_with_the_reason() -> None:
    status = running(of("orders", 0))
    status.configs = config_round(("orders", config_sync.ConfigOutcome.IN_STEP))
    assert "not in step" not in shown(status).text
    status.configs = config_round(
        ("orders", config_sync.ConfigOutcome.ALTERED),
        (EVIL, config_sync.ConfigOutcome.DIFFERENT),
        ("b", config_sync.ConfigOutcome.HIDDEN),
    )
    html = shown(status, opened=("configurations primary->backup",))
    assert "2 topic configurations" in html.text and "not in step," in html.text and "it is different" in html.text
    assert EVIL in html.text and "retention.ms=2 (was 1)" in html.text
    assert [d["id"] for d in html.all("details") if "open" in d] == ["configurations primary->backup"]
    (flow,) = json.loads(overview([status], READ).json())["flows"]
    assert flow["configs"]["topics_by_outcome"] == {"in_step": 0, "altered": 1, "different": 1, "hidden": 1}
    status.configs = config_round(*((f"t{n}", config_sync.ConfigOutcome.HIDDEN) for n in range(CONFIGS_MAX + 7)))
    assert "and 7 more" in shown(status).text
    status.configs = replace(config_round(), kept_by=EVIL)
    assert f"left alone, because the flow {EVIL} brings them the other way" in shown(status).text


def test_acls_that_are_not_copied_are_there_with_the_reason() -> None:
    status = running(of("orders", 0))
    status.acls = acl_round(AclOutcome.IN_STEP, AclOutcome.CREATED)
    assert "not copied as on the source" not in shown(status).text
    status.acls = acl_round(AclOutcome.MISSING, AclOutcome.NOT_COPIED)
    html = shown(status, opened=("ACLs primary->backup",))
    assert "2 ACLs" in html.text and "it is not_copied" in html.text and "not copied as on the source" in html.text
    assert [d["id"] for d in html.all("details") if "open" in d] == ["ACLs primary->backup"]
    assert UNNAMED not in html.text
    status.acls = replace(
        status.acls, acls=tuple(replace(each, stranger=True) for each in acl_round(AclOutcome.IN_STEP).acls)
    )
    assert f"ACLs for 1 principal: User:billing: {UNNAMED}" in shown(status).text
    status.acls = acl_round(*[AclOutcome.MISSING] * (ACLS_MAX + 7))
    assert "and 7 more" in shown(status).text


def test_rounds_that_fail_are_there_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    status = running(of("orders", 0))
    assert "round over" not in shown(status).text
    status.groups = Round(now - 50, (), True, has_ended=False)
    different = config_round((EVIL, config_sync.ConfigOutcome.DIFFERENT))
    status.configs = replace(different, at=now - 50, has_ended=False, problem=f"refused {EVIL}")
    status.acls = replace(acl_round(AclOutcome.MISSING), at=now - 7, problem="it is denied")
    html = shown(status)
    assert "No round over the consumer groups has ended yet." in html.text
    assert f"No round over the topic configurations has ended yet: refused {EVIL}." in html.text
    assert "The newest round over the ACLs has failed: it is denied. " in html.text
    assert "The last one that succeeded ended 7.0 s ago." in html.text
    assert "not all are compared yet" in html.text and "50 s ago" not in html.text
    (flow,) = json.loads(overview([status], READ).json())["flows"]
    assert (flow["groups"]["at"], flow["groups"]["problem"]) == (None, "")
    assert (flow["configs"]["at"], flow["configs"]["problem"]) == (None, f"refused {EVIL}")
    assert (flow["acls"]["at"], flow["acls"]["problem"]) == (now - 7, "it is denied")
    assert len(flow["acls"]["acls"]) == 1, "what the last one has found"


def test_a_retrying_flow_says_why() -> None:
    status = running(of("orders", 0))
    status.tell_problem("cluster backup does not answer: connection refused")
    html = shown(status)
    assert "cluster backup does not answer: connection refused" in html.text
    assert "1 of 1 flow not running" in html.text


def test_whatever_things_are_called_is_text() -> None:
    status = running(of(EVIL, 0, state="blocked", reason=EVIL, remote=EVIL))
    status.tell_problem(EVIL)
    html = shown(status, opened=(f"primary->backup/{EVIL}", EVIL))
    assert EVIL in html.text
    assert [a.get("src") for a in html.all("script")] == ["page.js"]
    assert not any(name == "b" and attributes for name, attributes in html.tags)


def test_thousands_of_partitions_stay_usable() -> None:
    topics, each = 500, 20
    all_of_them = [of(f"topic-{t:03d}", n) for t in range(topics) for n in range(each)]
    for number in range(0, 400, 2):
        all_of_them[number * each] = of(f"topic-{number:03d}", 0, state="blocked", reason="denied")
    status = running(*all_of_them)
    html = shown(status, opened=("primary->backup/topic-007",))
    assert len(html.all("details")) == topics
    assert [d["id"] for d in html.all("details") if "open" in d] == ["primary->backup/topic-007"]
    rows = [a for a in html.all("th") if a["scope"] == "row"]
    assert len(rows) == each < ROWS_MAX, "only of the topic that is open"
    assert len(html.all("li")) <= LISTED_MAX + 30, "stopped partitions and events"
    assert "200 partitions blocked" in html.text
    links = [a["href"] for a in html.all("a")]
    assert "?open=primary-%3Ebackup/topic-008" in links, "without JavaScript a link opens a topic"


def test_a_service_without_reports_has_a_page() -> None:
    html = shown(FlowStatus("primary", "backup", "us"))
    assert "starting" in html.text and "Nothing is copied yet" in html.text
    unassigned = FlowStatus("primary", "backup", "us")
    unassigned.planned(1, [[Partition("orders", 0)]])
    assert "1 unassigned" in shown(unassigned).text


def test_changes_of_the_configuration_that_are_not_in_force_are_shown() -> None:
    flow = running(of("orders", 0))
    assert "take effect" not in shown(flow).text
    view = ConfigurationView(7.0, f"a.yaml:3: {EVIL}", ("http.port",))
    html = Parsed(page(overview([flow], view), Request({}, "")).body.decode())
    assert f"The old settings stay in force: a.yaml:3: {EVIL}" in html.text
    assert "take effect at the next start: http.port" in html.text
    said = json.loads(overview([flow], view).json())["configuration"]
    assert said == {"succeeded_at": 7.0, "problem": f"a.yaml:3: {EVIL}", "waiting": ["http.port"]}


def test_nothing_of_elsewhere_is_loaded() -> None:
    answer = page(overview([running(of("orders", 0))], READ), Request({}, ""))
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    html = Parsed(answer.body.decode())
    loaded = [a.get("src") or a.get("href") for name in ("script", "link", "img") for a in html.all(name)]
    assert {f"/{name}" for name in loaded} == set(files()) == {f"/{name}" for name in FILES}
    assert not any("style" in attributes or any(a.startswith("on") for a in attributes) for _, attributes in html.tags)
    style = files()["/page.css"](Request({}, "")).body.decode()
    assert "url(" not in style and "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_status_says_the_same_as_json() -> None:
    status = running(
        of("orders", 0, lag=3, behind_since=time.time() - 60), of("orders", 1, state="blocked", reason="no")
    )
    said = json.loads(overview([status], READ).json())
    (flow,) = said["flows"]
    assert (flow["source"], flow["target"], flow["state"], flow["generation"]) == ("primary", "backup", "running", 3)
    assert flow["partitions_by_state"]["blocked"] == 1
    (topic,) = flow["topics"]
    first, second = topic["partitions"]
    assert first["lag"] == {"records": 3, "seconds": pytest.approx(60, abs=30), "unknown": 0}
    assert (second["state"], second["reason"], second["position"]) == ("blocked", "no", 10)
    assert topic["lag"]["records"] == 3
    assert flow["events"][0]["partition"] == 1


def test_pages_over_http() -> None:
    server = WebServer(
        Http("127.0.0.1", 0),
        {"/": lambda r: page(overview([running(of("a", 0))], READ), r), **files()},
    )
    try:
        url = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{url}/?open=x") as answer:
            assert answer.headers["Content-Type"].startswith("text/html")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "Content-Security-Policy" in answer.headers
        for name, kind in FILES.items():
            with urllib.request.urlopen(f"{url}/{name}") as answer:
                assert answer.headers["Content-Type"] == kind and answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/page.js.map")
    finally:
        server.stop()


def test_the_clusters_are_there_with_the_reason_why_one_does_not_answer() -> None:
    clusters = [ClusterStatus("primary", True, certificates={"ca": 2e9}), ClusterStatus("backup", False, EVIL, 1_234)]
    seen = overview([running(of("a", 0))], READ, clusters)
    html = Parsed(page(seen, Request({}, "")).body.decode())
    assert "Clusters" in html.text and EVIL in html.text and "1,234" in html.text
    assert "ca 2033-05-18 03:33:20Z" in html.text
    said = json.loads(seen.json())["clusters"]
    assert [(each["alias"], each["reachable"]) for each in said] == [("primary", True), ("backup", False)]
    assert "Clusters" not in shown(running(of("a", 0))).text


def test_a_mirror_that_is_not_complete_says_so() -> None:
    status = running(of("a", 0))
    status.coverage = coverage({"a": 1, "b": 2}, {"a": 1})
    said = "The mirror is not complete: backup lacks 1 of 2 topics, and 2 of 3 partitions that the flow selects."
    assert said in shown(status).text
    status.coverage = coverage({"a": 1}, {"a": 1})
    assert "not complete" not in shown(status).text


def test_a_flow_that_mirrors_no_topic_says_so() -> None:
    status = FlowStatus("primary", "backup", "us")
    status.planned(1, [])
    status.active = True
    status.tell_problem("")
    assert "The flow mirrors nothing: no topic of primary that mirror may see matches." in shown(status).text
    status.planned(2, [[Partition("a", 0)]])
    assert "mirrors nothing" not in shown(status).text


def test_records_that_the_source_deletes_soon_are_named() -> None:
    now = time.time()
    status = running(of("a", 0, lag=1, next_timestamp=now - 40), of("a", 1, lag=1, next_timestamp=now - 60 * 60))
    status.keep_retention({"a": 90.0 * 60})
    assert "The source may delete records of a-1 in 30 min that are not copied yet." in shown(status).text
    said = json.loads(overview([status], READ).json())["flows"][0]["retention"]["first"]
    assert (said["topic"], said["partition"], round(said["seconds"], -2)) == ("a", 1, 1_800)
    status.keep_retention({"a": 86_400.0})
    assert "may delete" not in shown(status).text
    status.keep_retention({"a": 60.0})
    assert "of a-1 at any moment" in shown(status).text


def test_what_the_last_comparison_has_found_is_there_with_its_age() -> None:
    status = running(of("a", 0))
    status.verified = Verification(time.time() - 7_200, True, 5, 0, 0)
    assert "mirror verify found source and target equal 2 h ago." in shown(status).text
    status.verified = Verification(time.time() - 60, False, 5, 1, 0)
    assert "mirror verify found source and target not equal 60 s ago: 1 difference." in shown(status).text
    status.verified = Verification(time.time() - 60, False, 5, 0, 0)
    assert "mirror verify did not find source and target equal 60 s ago. No record differs" in shown(status).text
    status.verified = Verification(time.time() - 60, False, 5, 1, 0)
    said = json.loads(overview([status], READ).json())["flows"][0]["verified"]
    assert (said["equal"], said["compared"], said["differences"]) == (False, 5, 1)


def test_the_canary_is_there_with_its_age_and_says_when_none_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    status, now = running(of("a", 0)), time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    assert "canary" not in shown(status).text
    status.canary = CanaryStatus("mirror-canary.primary.internal", now - 5, 0.25, "")
    assert "The last canary was written 5.0 s ago, and arrived after 250 ms." in shown(status).text
    status.canary = replace(status.canary, at=now - 20, seconds=None, problem=f"refused {EVIL}")
    assert f"No canary has arrived yet; they have been written for 20 s: refused {EVIL}." in shown(status).text
    status.canary = CanaryStatus("mirror-canary.primary.internal", now - LATE - 60, 0.25, "")
    page = shown(status)
    assert "No canary has arrived for 4 min." in page.text
    assert [each for each in page.all("p") if each.get("class") == "problem"]
    said = json.loads(overview([status], READ).json())["flows"][0]["canary"]
    assert (said["topic"], said["seconds"]) == ("mirror-canary.primary.internal", 0.25)
