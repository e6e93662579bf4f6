"""What the plan carries for running tasks: as it was written, checked, and absent from an older mirror's plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.next_plan import next_plan
from mirror.control.plan import Lineage, Plan
from mirror.control.task_settings import TaskSettings
from mirror.control.throttle_shares import OF_FLOW, Load, Share
from mirror.decode import DecodeError
from mirror.model import BATCH_BYTES, Partition, Topic
from mirror.settings import TopicSettings
from mirror.task.slice_plan import SlicePlan
from mirror.task.task_services import TaskServices
from tests.unit.test_naming import flow

STARTED = flow()
CHANGED = replace(
    STARTED,
    transaction_linger_max=STARTED.transaction_linger_max + 1,
    producer_idle_timeout=STARTED.producer_idle_timeout + 1,
    open_transaction_warn_after=STARTED.open_transaction_warn_after + 1,
    append_to_existing=not STARTED.append_to_existing,
    on_data_loss="skip",
    on_poison_record="dead_letter",
    throttle=5_000_000,
    topic_settings={
        "named": TopicSettings("eu-named", "latest", None, None, None),
        "dated": TopicSettings(None, 1_706_702_400_000, None, None, 64_000),
        "kept": TopicSettings(None, None, "fail", "skip", None),
    },
)
SETTINGS = TaskSettings.of(CHANGED, "debug")


def plan(settings: TaskSettings | None) -> Plan:
    return Plan("us", 7, {}, (frozenset(),), task_settings=settings)


def test_they_are_read_as_they_were_written() -> None:
    assert STARTED.on_data_loss == "fail" and STARTED.on_poison_record == "fail"
    assert Plan.decode(plan(SETTINGS).encode()).task_settings == SETTINGS
    assert SETTINGS.applied(STARTED) == CHANGED


def test_a_plan_of_an_older_mirror_has_none() -> None:
    assert b"task_settings" not in plan(None).encode()
    assert Plan.decode(plan(None).encode()).task_settings is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transaction_linger_max", -1),
        ("producer_idle_timeout", 1e9),
        ("open_transaction_warn_after", "5"),
        ("append_to_existing", 1),
        ("on_data_loss", "dead_letter"),
        ("on_poison_record", "x" * 10_000),
        ("throttle", 0),
        ("throttle", "1MB"),
        ("throttle", True),
        ("log_level", "notset"),
        ("log_level", None),
        ("topic_settings", []),
        ("topic_settings", {"no/topic": {}}),
        ("topic_settings", {"topic": None}),
        ("topic_settings", {"topic": {"remote_topic": "no/topic"}}),
        ("topic_settings", {"topic": {"start": "never"}}),
        ("topic_settings", {"topic": {"start": True}}),
        ("topic_settings", {"topic": {"start": -1}}),
        ("topic_settings", {"topic": {"on_data_loss": None}}),
        ("topic_settings", {"topic": {"on_poison_record": "wait"}}),
        ("topic_settings", {"topic": {"throttle": 0}}),
        ("topic_settings", {"topic": {"throttle": None}}),
    ],
)
def test_what_a_stranger_has_written_is_refused(name: str, value: Any) -> None:
    raw = json.loads(plan(SETTINGS).encode())
    raw["task_settings"][name] = value
    with pytest.raises(DecodeError, match=f"task_settings: {name}: "):
        Plan.decode(json.dumps(raw).encode())


def test_what_a_topic_does_not_say_is_not_written() -> None:
    assert json.loads(plan(SETTINGS).encode())["task_settings"]["topic_settings"] == {
        "named": {"remote_topic": "eu-named", "start": "latest"},
        "dated": {"start": 1_706_702_400_000, "throttle": 64_000},
        "kept": {"on_data_loss": "fail", "on_poison_record": "skip"},
    }


def test_changed_settings_make_another_plan() -> None:
    before, after = (
        next_plan(None, "us", {}, (frozenset(),), 1, Load(), Lineage(), {}, 1.0, TaskSettings.of(each, "info"))
        for each in (STARTED, CHANGED)
    )
    assert before != after == replace(before, task_settings=after.task_settings)


def test_a_task_has_those_of_the_newest_plan_and_at_first_those_of_the_start() -> None:
    control: Any = SimpleNamespace(plan=None)
    slice_plan = SlicePlan(STARTED, control, "us", 0, 1, 0, "task")
    assert slice_plan.flow is STARTED and slice_plan.settings is None
    control.plan = plan(None)
    assert slice_plan.flow is STARTED
    control.plan = plan(SETTINGS)
    assert slice_plan.flow == CHANGED and slice_plan.flow is slice_plan.flow
    control.plan = plan(TaskSettings.of(STARTED, "info"))
    assert slice_plan.flow == STARTED, "taken back"


def test_a_task_of_a_plan_before_a_restart_ends() -> None:
    """Also if the newest plan has as many slices as the one by which it began."""
    newest = next_plan(None, "us", {}, (frozenset(),), 2, Load(), Lineage(), {}, 1.0, SETTINGS)
    control: Any = SimpleNamespace(plan=Plan.decode(newest.encode()), claims={0: "task"})
    wanted = {restarts: SlicePlan(STARTED, control, "us", 0, 1, restarts, "task").wanted() for restarts in (1, 2)}
    assert wanted == {1: None, 2: {}}


def test_what_a_topic_says_wins_over_what_the_flow_says_before_and_after_a_change() -> None:
    own = TopicSettings(None, None, "skip", None, None)
    started = replace(STARTED, topic_settings={"own": own, "other": own})
    control: Any = SimpleNamespace(plan=None)
    unused: Any = None
    task = TaskServices(SlicePlan(started, control, "us", 0, 1, 0, "task"), *(unused for _ in range(9)))
    services = {name: task.of_topic(name) for name in ("own", "other", "third")}

    def policies(settings: TaskSettings | None) -> dict[str, tuple[str, str]]:
        control.plan = plan(settings)
        return {name: (each.flow.on_data_loss, each.flow.on_poison_record) for name, each in services.items()}

    before = {"own": ("skip", "fail"), "other": ("skip", "fail"), "third": ("fail", "fail")}
    assert policies(None) == policies(TaskSettings.of(started, "info")) == before, "also with an older mirror's plan"
    flow_changed = replace(started, on_data_loss="fail", on_poison_record="skip")
    assert policies(TaskSettings.of(flow_changed, "info")) == dict.fromkeys(before, ("skip", "skip")) | {
        "third": ("fail", "skip")
    }
    entries = {"own": TopicSettings(None, None, "fail", "dead_letter", None), "third": own}
    changed = replace(started, on_poison_record="skip", topic_settings=entries)
    assert policies(TaskSettings.of(changed, "info")) == {
        "own": ("fail", "dead_letter"),
        "other": ("fail", "skip"),  # its entry is gone
        "third": ("skip", "skip"),
    }
    assert task.flow.on_poison_record == "skip"


def test_a_task_has_its_share_of_the_throttle_of_the_newest_plan() -> None:
    started, here, there = replace(STARTED, throttle=4_000), Partition("a", 0), Partition("a", 1)
    control: Any = SimpleNamespace(plan=None)
    task = SlicePlan(started, control, "us", 0, 2, 0, "task")
    assert task.shares == {}, "nothing to copy yet"

    def follow(settings: TaskSettings | None, *slices: frozenset[Partition]) -> Mapping[str, Share]:
        control.plan = Plan("us", 7, {"a": Topic("r", "id", 2, 0)}, slices, task_settings=settings)
        return task.shares

    mine, theirs = frozenset({here}), frozenset({there})
    found = follow(None, mine, theirs)
    assert found == {OF_FLOW: Share(4_000, 2_000.0)}, "an older mirror's plan: as it was at the start"
    assert follow(TaskSettings.of(started, "info"), mine, theirs) is found, "the same as before"
    changed = replace(started, throttle=None, topic_settings={"a": TopicSettings(None, None, None, None, 5_000)})
    assert follow(TaskSettings.of(changed, "info"), mine | theirs, frozenset()) == {"a": Share(5_000, 5_000.0)}
    assert follow(TaskSettings.of(STARTED, "info"), mine | theirs) == {"a": Share(5_000, 5_000.0)}, "not a plan for it"
    assert follow(TaskSettings.of(STARTED, "info"), mine, theirs) == {}


def test_a_task_learns_from_the_newest_plan_how_large_batches_may_be() -> None:
    control: Any = SimpleNamespace(plan=None)
    task = SlicePlan(STARTED, control, "us", 0, 1, 0, "task")
    assert task.largest("a") == BATCH_BYTES
    control.plan = Plan("us", 7, {"a": Topic("r", "id", 2, 0, largest=5_000_000)}, ())
    assert (task.largest("a"), task.largest("gone")) == (5_000_000, BATCH_BYTES)


def test_code_that_tasks_run_is_never_taken_from_a_plan() -> None:
    """Others may write to the control topic. What the service has started with stays, whatever became of the entry."""
    own = {
        "own": TopicSettings(None, None, "skip", None, None, "shop.own"),
        "gone": TopicSettings(None, 5, None, None, None, "none"),
    }
    started = replace(STARTED, transform="shop.masked", topic_settings=own)
    settings = TaskSettings.of(started, "info")
    assert b"shop" not in plan(settings).encode()
    assert Plan.decode(plan(settings).encode()).task_settings == settings
    assert settings.applied(started) == started
    changed = replace(started, transform="evil.f", topic_settings={"own": replace(own["own"], on_data_loss="fail")})
    followed = TaskSettings.of(changed, "info").applied(started)
    assert followed.transform == "shop.masked"
    assert followed.topic_settings == {
        "own": TopicSettings(None, None, "fail", None, None, "shop.own"),
        "gone": TopicSettings(None, None, None, None, None, "none"),
    }
    raw = json.loads(plan(settings).encode())
    raw["task_settings"]["topic_settings"]["own"]["transform"] = "evil.f"
    raw["task_settings"]["transform"] = "evil.f"
    read = Plan.decode(json.dumps(raw).encode()).task_settings
    assert read is not None and read.applied(started) == started
