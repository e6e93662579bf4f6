"""mirror's own topics may contain anything: a value is decoded to its declared type, or refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.status import reported_flow, shown
from mirror.control.control_topics import Claim, DatedReport
from mirror.control.decisions import Decision, Incident
from mirror.control.orders import Order, Scope
from mirror.control.plan import Plan
from mirror.control.reports import Report
from mirror.control.task_settings import TaskSettings
from mirror.control.verification import Verification
from mirror.decode import DecodeError
from mirror.model import Partition, Position, Topic
from mirror.status.configuration import ConfigurationView
from mirror.status.flow_status import FlowStatus
from mirror.status.overview import overview
from mirror.target import position_metadata
from mirror.target.position_reader import from_committed
from mirror.web.metrics.scrape import Metrics
from tests.unit.control.test_reports import report
from tests.unit.test_naming import flow

SETTINGS = TaskSettings.of(flow(), "info")
PLAN = Plan(
    "us", 7, {"topic": Topic("a.topic", "id", 2, 1)}, (frozenset({Partition("topic", 0)}),), task_settings=SETTINGS
)
DECISION = Decision(Partition("topic", 1), Incident("deleted", "id", "", 5), "skip")
DECODERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "report": (Report.decode, report(7).encode()),
    "plan": (Plan.decode, PLAN.encode()),
    "claim": (lambda value: Claim.decode(b"claim/1", value), Claim(1, "task").encode()),
    "order": (Order.decode, Order(True).encode()),
    "verification": (Verification.decode, Verification(1.5, True, 7, 0, 3).encode()),
    "decision": (lambda value: Decision.decode(b"decision/topic/1", value), DECISION.encode()),
}
# Values that are easily forgotten.
NASTY: list[Any] = [
    None, True, False, 0, -1, 1.5, -0.0, 2**31, 2**63, 10**400, 1e18, 1e300, float("inf"), float("-inf"), float("nan"),
    "", "text", "12", "\ud800", "\x00", "\x1b[2J", "..", "x" * 3_000, [], [[]], [0], {}, {"": 0}, {"\udfff": {}},
]  # fmt: skip
values = st.recursive(
    st.sampled_from(NASTY) | st.floats() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)


def places(value: Any) -> list[tuple[Any, ...]]:
    """The paths to all parts of a JSON value, including the value itself."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(), *((key, *path) for key in keys for path in places(value[key]))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same value with another part at one place."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return {**value, key: put(value[key], tuple(rest), new)}
    return [put(each, tuple(rest), new) if at == key else each for at, each in enumerate(value)]


def dumped(value: Any) -> bytes:
    """Encode a value as a hostile writer might: also numbers that are not valid JSON."""
    return json.dumps(value).encode()


def decoded(kind: str, value: bytes) -> object | None:
    """Decode the value; None if it was refused."""
    try:
        return DECODERS[kind][0](value)
    except DecodeError as error:
        assert len(str(error)) < 300 and str(error).isprintable(), "the log's lines are ours"
        return None


def show(found: Report, at: float = 1_800_000_000.0) -> None:
    """Use a report in every way in which mirror uses reports."""
    status = FlowStatus("primary", "backup", found.service_id)
    status.absorb([found])
    status.history.take([])  # as if the next sample were due
    status.absorb([found, report(8, service_id=found.service_id)])
    status.tell_problem("waits")
    overview([status], ConfigurationView(0.0)).json()
    for family in Metrics([status]).collect():
        assert all(float(sample.value) == sample.value for sample in family.samples), family
    status.bytes_per_second()
    seen = reported_flow("a->b", PLAN, (), [DatedReport(found, at), DatedReport(found, at + 2)], at + 3)
    assert json.dumps(seen.as_dict(), allow_nan=False).isascii()
    assert all(line.isprintable() for line in f"{shown(seen, True)}\n{shown(seen, False)}".splitlines())


@pytest.mark.parametrize("kind", DECODERS)
@given(value=values)
def test_any_json_is_decoded_or_refused(kind: str, value: Any) -> None:
    decoded(kind, dumped(value))


@pytest.mark.parametrize("kind", DECODERS)
@given(value=st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(kind: str, value: bytes) -> None:
    decoded(kind, value)


@pytest.mark.parametrize("kind", DECODERS)
@given(data=st.data())
def test_one_value_of_another_kind_is_decoded_or_refused(kind: str, data: st.DataObject) -> None:
    good = json.loads(DECODERS[kind][1])
    path = data.draw(st.sampled_from(places(good)))
    found = decoded(kind, dumped(put(good, path, data.draw(st.sampled_from(NASTY) | values))))
    if isinstance(found, Report):
        show(found)
    elif isinstance(found, Plan):
        assert Plan.decode(found.encode()) == found
        assert all(partition.topic in found.topics for each in found.slices for partition in each)


@pytest.mark.parametrize("kind", DECODERS)
def test_a_value_nested_a_hundred_thousand_deep_is_refused(kind: str) -> None:
    for deep in (b"[" * 100_000, b'{"a":' * 100_000, b'{"position":' + b"[" * 100_000):
        assert decoded(kind, deep) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("position",), "12"),
        (("position",), 1.0),
        (("position",), True),
        (("position",), -2),
        (("lag",), 2**63),
        (("generation",), None),
        (("last_commit",), 1e300),
        (("last_commit",), float("nan")),
        (("behind_since",), float("inf")),
        (("behind_since",), -1.5),
        (("partition",), ["topic"]),
        (("partition",), ["../topic", 0]),
        (("partition",), ["topic", -1]),
        (("remote",), "no topic"),
        (("leader",), ["us"]),
        (("state",), "x" * 101),
        (("incident",), 1),
        (("throttled_by",), ["nobody"]),
        (("throttled_by",), [[]]),
        (("counters",), []),
        (("counters", "records"), "many"),
        (("counters", "records"), -1),
        (("counters", "lost", "refused"), None),
        (("counters", "latency_buckets"), [0]),
        (("counters", "latency_buckets", 3), 0.5),
        (("counters", "latency_sum"), 1e300),
    ],
)
def test_a_report_with_one_wrong_value_is_refused(path: tuple[Any, ...], value: Any) -> None:
    assert decoded("report", dumped(put(json.loads(report(7).encode()), path, value))) is None


def test_a_reason_is_cut_and_moves_no_cursor() -> None:
    for reason in ("x" * 100_000, "\x1b[2J\nnext", "\ud800", "größer"):
        found = decoded("report", dumped(put(json.loads(report(7).encode()), ("reason",), reason)))
        assert isinstance(found, Report) and len(found.reason) <= 2_000 and found.reason.isprintable()
    assert isinstance(found, Report) and found.reason == reason


def test_a_record_that_is_too_large_is_not_even_parsed() -> None:
    assert decoded("report", report(7).encode() + b" " * 2**18) is None
    assert decoded("order", Order(True).encode() + b" " * 2**16) is None


def test_counts_of_another_mirror_may_be_missing() -> None:
    raw = json.loads(report(7).encode())
    for name in (
        "topic_id",
        "remote_id",
        "resets",
        "incident",
        "stuck_since",
        "held_back",
        "throttled",
        "throttled_by",
    ):
        del raw[name]
    del raw["counters"]["lost"]["dead_letter"], raw["counters"]["duration_buckets"]
    raw["counters"]["lost"]["other"] = 3
    assert Report.decode(dumped(raw)) == report(7)


@given(st.binary(max_size=40), st.sampled_from(["order/", "decision/", "claim/"]))
def test_any_key_is_decoded_or_refused(rest: bytes, kind: str) -> None:
    key = kind.encode() + rest
    decoders = {
        "order/": lambda: Scope.decode(key).key(),
        "decision/": lambda: Decision.decode(key, DECISION.encode()).key(),
        "claim/": lambda: Claim.decode(key, b'{"task":"a"}').key(),
    }
    with contextlib.suppress(DecodeError):
        assert decoders[kind]() == key


@given(values | st.text())
def test_a_position_without_metadata_of_ours_is_an_offset_alone(value: Any) -> None:
    written = str(value).encode(errors="replace").decode().replace("\0", "")  # as the client library returns it
    for metadata in (json.dumps(value), written, "[" * 4_000):
        found = from_committed(TopicPartition("topic", 0, 5, metadata))
        assert found == Position(5, "")


@given(st.sampled_from(NASTY))
def test_a_position_keeps_what_is_well_formed(value: Any) -> None:
    for raw in ({"topic_id": "id", "since": value}, {"topic_id": value}):
        found = from_committed(TopicPartition("topic", 0, 5, json.dumps(raw)))
        assert found is not None and found.offset == 5
        assert found.topic_id.isascii() and -1 <= found.epoch_before_markers < 2**31


def test_metadata_ends_where_its_text_does_whoever_has_committed_it() -> None:
    ours = position_metadata.decoded(5, 2, '{"topic_id":"a"}\0 any bytes after it')
    assert ours is not None and ours.topic_id == "a"

    class Unreadable:
        offset, leader_epoch = 5, 2

        @property
        def metadata(self) -> str:
            return b"\xa0".decode()

    theirs = from_committed(cast(TopicPartition, Unreadable()))
    assert theirs is not None and (theirs.offset, theirs.epoch, theirs.topic_id) == (5, 2, "")
