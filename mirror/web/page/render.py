"""The status page's HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote
from xml.etree.ElementTree import Element

from mirror.control.data_path import BATCHES
from mirror.control.partition_state import STOPPED_BY_ERROR
from mirror.status.overview import FlowView, Lag, Overview, Pace, PartitionView, TopicView
from mirror.status.rates import POINTS, TOPIC_POINTS
from mirror.text import ABSENT, byte_rate, count, duration, plural, rate, time_of_day
from mirror.web.page.acls import acls, unnamed_principals_line
from mirror.web.page.cautions import canary, expiring, failed_rounds, missing, no_topics, unequal
from mirror.web.page.chart import Series, chart, highest
from mirror.web.page.clusters import clusters
from mirror.web.page.configs import configs
from mirror.web.page.configuration import configuration
from mirror.web.page.events import events
from mirror.web.page.groups import groups
from mirror.web.page.markup import Child, document, table, tag
from mirror.web.page.stopped import held_back, stopped_by_error

ROWS_MAX = 300  # partitions of a flow that are all on the page; if it has more, only those of opened topics are
RELOAD = 10  # seconds between reloads of the page where JavaScript is off
WORST_FIRST = ("blocked", "stopped", "unassigned", "retrying", "paused", "standby", "starting", "running")


def render(overview: Overview, opened: frozenset[str]) -> bytes:
    """The whole page. `opened` has the topics to show with their partitions, as source->target/topic."""
    flows = overview.flows
    links = (tag("a", name, href=name) for name in ("status", "metrics", "readyz", "livez"))
    main = tag(
        "main",
        tag(
            "header",
            tag("h1", "mirror"),
            _pill(_worst(flows), _verdict(flows)),
            tag("p", f"{time_of_day(overview.at)} UTC", class_="when"),
        ),
        *configuration(overview.configuration),
        *(_flow(flow, overview, opened) for flow in flows),
        clusters(overview.clusters),
        tag("footer", tag("span", f"version {overview.version}"), *links),
    )
    stale = tag("p", id="stale", role="alert", hidden=True)
    return document(tag("html", _head(f"mirror: {_verdict(flows)}"), tag("body", stale, main), lang="en"))


def _head(title: str) -> Element:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", title),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="stylesheet", href="page.css"),
        tag("link", rel="icon", href="icon.svg", type="image/svg+xml"),
        tag("noscript", tag("meta", http_equiv="refresh", content=str(RELOAD))),
        tag("script", src="page.js", defer=True),
    )


def _verdict(flows: Sequence[FlowView]) -> str:
    """The state of all flows in one line."""
    if flows and all(flow.state == "standby" for flow in flows):
        return "standby"
    stopped = sum(flow.state != "running" for flow in flows)
    if stopped:
        return f"{stopped} of {plural(len(flows), 'flow')} not running"
    counts = ((sum(flow.partitions_by_state[state] for flow in flows), state) for state in ("blocked", "retrying"))
    return ", ".join(f"{plural(number, 'partition')} {state}" for number, state in counts if number) or "running"


def _worst(flows: Sequence[FlowView]) -> str:
    """The worst state of all flows and partitions."""
    states = [flow.state for flow in flows]
    states += [state for flow in flows for state in STOPPED_BY_ERROR if flow.partitions_by_state[state]]
    return min(states, key=_severity, default="starting")


def _severity(state: str) -> int:
    return WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def _pill(state: str, text: str = "") -> Element:
    return tag("span", text or state, class_=f"pill {state}")


_EXPLAINED = {
    "retrying": "The flow tries again, and goes on by itself",
    "blocked": "The flow waits for a person",
    "standby": "This service stands by, and takes over when no service leads the flow",
    "stopped": "This service does not run the flow any more",
}


def _flow(flow: FlowView, overview: Overview, opened: frozenset[str]) -> Element:
    few = sum(flow.partitions_by_state.values()) <= ROWS_MAX
    topics = sorted(flow.topics, key=_worst_first)
    return tag(
        "section",
        tag("h2", flow.source, tag("span", " → ", class_="arrow"), f"{flow.target} ", _pill(flow.state)),
        tag("p", f"{_EXPLAINED[flow.state]}: {flow.problem}", class_=f"problem {flow.state}")
        if flow.state in _EXPLAINED
        else None,
        tag("p", f"The rest of the flow runs: {flow.lacking}", class_="problem") if flow.lacking else None,
        missing(flow),
        expiring(flow.retention),
        unequal(flow.verified, overview.at),
        canary(flow.canary, overview.at),
        *failed_rounds(flow, overview.at),
        *stopped_by_error(flow, overview.at),
        held_back(flow),
        _key_numbers(flow),
        _charts(flow, overview.interval),
        tag(
            "div",
            tag("div", *(tag("span", text) for text in _TOPIC_HEADS), class_="head", aria_hidden="true"),
            *(_topic(flow, topic, overview.at, few, opened) for topic in topics),
            class_="topics",
        )
        if topics
        else no_topics(flow),
        groups(flow.name, flow.groups, overview.at, opened),
        configs(flow.name, flow.configs, overview.at, opened),
        acls(flow.name, flow.acls, overview.at, opened),
        unnamed_principals_line(flow.acls),
        events(flow.events),
        class_="flow",
        id=flow.name,
    )


def _key_numbers(flow: FlowView) -> Element:
    states = ", ".join(f"{count(number)} {state}" for state, number in flow.partitions_by_state.items() if number)
    # In the order in which an operator asks for them.
    return tag(
        "dl",
        _key_number("Replication latency", duration(flow.pace.p50), f"median; p99 {duration(flow.pace.p99)}"),
        _key_number("Lag", count(flow.lag.records), _lag_detail(flow.lag)),
        _key_number("Records", rate(flow.pace.records_per_second), byte_rate(flow.pace.bytes_per_second)),
        _key_number("Partitions", count(sum(flow.partitions_by_state.values())), states or "none yet"),
    )


def _key_number(name: str, value: str, more: str) -> Element:
    return tag("div", tag("dt", name), tag("dd", value), tag("dd", more, class_="more"))


def _lag_detail(lag: Lag) -> str:
    if lag.unknown:
        return f"not known for {plural(lag.unknown, 'partition')}"
    if lag.records == 0:
        return "caught up"
    return f"the oldest waits {duration(lag.seconds)}" if lag.seconds is not None else "records"


def _charts(flow: FlowView, interval: float) -> Element:
    points = flow.points
    latency: dict[str, Series] = {"p99": [p.p99 for p in points], "p50": [p.p50 for p in points]}
    lag: dict[str, Series] = {"lag": [p.lag for p in points]}
    records: dict[str, Series] = {"rate": [p.records_per_second for p in points]}
    minutes = f"last {duration(POINTS * interval)}"
    return tag(
        "div",
        _chart("Latency, median and p99", latency, duration(highest(*latency.values()) or None), minutes),
        _chart("Lag", lag, count(highest(*lag.values())), minutes),
        _chart("Records per second", records, count(highest(*records.values())), minutes),
        class_="charts",
    )


def _chart(title: str, series: dict[str, Series], top: str, span: str) -> Element:
    return tag(
        "figure",
        tag("figcaption", title, tag("span", f"up to {top}")),
        chart(series, POINTS, f"{title}, {span}, up to {top}"),
    )


def _worst_first(topic: TopicView) -> tuple[bool, bool, str]:
    """The order of topics: blocked ones, then retrying ones, then by name."""
    return not topic.partitions_by_state["blocked"], not topic.partitions_by_state["retrying"], topic.topic


_TOPIC_HEADS = ("topic", "lag", "waits", "records", "p50", "p99", "last 3 min")


def _topic(flow: FlowView, topic: TopicView, now: float, few: bool, opened: frozenset[str]) -> Element:
    key = f"{flow.name}/{topic.topic}"
    body: Child
    if few or key in opened:
        body = _partitions(topic.partitions, now)
    else:
        body = tag("p", tag("a", f"show {plural(len(topic.partitions), 'partition')}", href=f"?open={quote(key)}"))
    bad = [f"{number} {state}" for state, number in topic.partitions_by_state.items() if number and state != "running"]
    state = next((state for state in WORST_FIRST if topic.partitions_by_state.get(state)), "starting")
    return tag(
        "details",
        tag(
            "summary",
            tag(
                "span",
                tag("i", class_=f"dot {state}"),
                tag("b", topic.topic),
                tag("small", ", ".join(bad) or plural(len(topic.partitions), "partition")),
                class_="name",
            ),
            *_lag_and_pace("span", topic.lag, topic.pace),
            chart({"rate": topic.rates}, TOPIC_POINTS, "records per second"),
        ),
        body,
        id=key,
        open=key in opened,
    )


def _lag_and_pace(name: str, lag: Lag, pace: Pace) -> Iterator[Element]:
    yield tag(name, count(lag.records), class_="n", data_label="lag")
    yield tag(name, duration(lag.seconds or None), class_="n", data_label="waits")
    yield tag(name, rate(pace.records_per_second), class_="n", data_label="records")
    yield tag(name, duration(pace.p50), class_="n", data_label="p50")
    yield tag(name, duration(pace.p99), class_="n", data_label="p99")


_PARTITION_HEADS = ("partition", "state", "lag", "waits", "records", "p50", "p99", "position", "last commit")


def _partitions(partitions: Sequence[PartitionView], now: float) -> Element:
    ordered = sorted(partitions, key=lambda p: (p.state not in (*STOPPED_BY_ERROR, "unassigned"), p.partition))
    rows = table(_PARTITION_HEADS, (_row(partition, now) for partition in ordered))
    return tag("div", rows, class_="scroll")


def _path(partition: PartitionView, now: float) -> str:
    """Which path the partition takes, for how long and why; "" if that is as it always is."""
    if partition.path != BATCHES and not partition.path_reason:
        return ""
    for_ = f" for {duration(max(0.0, now - partition.path_since))}" if partition.path_since else ""
    why = f": {partition.path_reason}" if partition.path_reason else ""
    return f"{'batch' if partition.path == BATCHES else 'record'} path{for_}{why}"


def _row(partition: PartitionView, now: float) -> Element:
    commit = f"{duration(max(0.0, now - partition.last_commit))} ago" if partition.last_commit else ABSENT
    return tag(
        "tr",
        tag("th", str(partition.partition), scope="row"),
        tag(
            "td",
            _pill(partition.state),
            *(tag("small", text) for text in (partition.reason, _path(partition, now)) if text),
        ),
        *_lag_and_pace("td", partition.lag, partition.pace),
        tag("td", ABSENT if partition.position is None else str(partition.position), class_="n"),
        tag("td", commit, class_="n"),
    )
