"""What a changed configuration means for a running service: which keys take effect, and which wait."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import reference
from pydantic import BaseModel

from mirror.config.flow_model import FlowDefaultsModel
from mirror.config.load import checked
from mirror.config.model import RootModel
from mirror.config.reload import Configuration
from mirror.config.reload_blend import Blend, blend
from mirror.config.reload_effects import EFFECTS, Effect
from mirror.control.task_settings import TaskSettings
from mirror.settings import TopicSettings

BASE = """\
clusters:
  a: {bootstrap.servers: "a:9092", sasl.password: "${env:PASSWORD}"}
  b: {bootstrap.servers: "b:9092"}
  c: {bootstrap.servers: "c:9092"}
flows:
  - {source: a, target: b, topics: [orders]}
"""


def root(tmp_path: Path, text: str, password: str = "secret") -> RootModel:
    file = tmp_path / "mirror.yaml"
    file.write_text(text)
    return checked(file, {"PASSWORD": password})[1]


def blended(tmp_path: Path, changed: str, base: str = BASE, password: str = "secret") -> Blend:
    return blend(root(tmp_path, base), root(tmp_path, changed, password))


def test_the_table_has_each_key_of_the_model_and_no_other() -> None:
    for section, kind in reference.SECTIONS.items():
        keys = {
            field.alias or name
            for name, field in kind.model_fields.items()
            if not _holds_a_section(section, field.alias or name)
        }
        assert EFFECTS[section].keys() == keys, section
    assert EFFECTS.keys() == reference.SECTIONS.keys()


def _holds_a_section(section: str, key: str) -> bool:
    inner = f"{section}.{key}" if section else key
    return inner == "flow_defaults" or any(
        each in (inner, f"{inner}[]", f"{inner}.<alias>", f"{inner}.<topic>") for each in EFFECTS
    )


def test_what_can_change_is_taken_and_named(tmp_path: Path) -> None:
    flow = "topics: [orders, bills], groups: {sync: true, interval: 5s}, tasks_max: 3"
    service = "log: {level: debug}\ndrain_timeout: 3s\nmetrics: {otlp: {interval: 9s}}\n"
    found = blended(tmp_path, BASE.replace("topics: [orders]", flow) + service)
    applied = ["log.level", "drain_timeout", "metrics.otlp.interval"]
    assert sorted(found.applied) == sorted(
        [*applied, *(f"a->b: {key}" for key in ("topics", "groups.sync", "groups.interval", "tasks_max"))]
    )
    assert not found.waiting
    (now,) = found.root.flows
    assert (now.topics, now.groups.sync, now.groups.interval, now.tasks_max) == (["orders", "bills"], True, 5.0, 3)
    assert found.root.log.level == "debug" and found.root.drain_timeout == 3.0


def test_what_comes_from_flow_defaults_is_a_change_of_each_flow(tmp_path: Path) -> None:
    found = blended(tmp_path, BASE + "flow_defaults: {exclude: [x], compression: zstd}\n")
    assert found.applied == ("a->b: exclude",) and found.waiting == ("a->b: compression",)


def test_what_can_not_change_stays_and_is_named_without_its_value(tmp_path: Path) -> None:
    changed = (
        BASE.replace("c:9092", "d:9092").replace("orders]", "orders], accept_log_append_time: true, group: g")
        + "spark: {master: 'local[2]', conf: {spark.my.password: s3cr3t}}\nhttp: {port: 1}\nlog: {format: json}\n"
    )
    changed += "metrics: {otlp: {headers: {x-who: s3cr3t}}}\n"
    found = blended(tmp_path, changed, password="another")
    assert not found.applied and found.root == root(tmp_path, BASE)
    named = ["a->b: accept_log_append_time", "a->b: group", "spark.master", "spark.conf.spark.my.password", "http.port"]
    named += ["metrics.otlp.headers.x-who", "log.format", "clusters.a.sasl.password", "clusters.c.bootstrap.servers"]
    assert sorted(found.waiting) == sorted(named)


def test_flows_and_clusters_neither_come_nor_go(tmp_path: Path) -> None:
    moved = BASE.replace("target: b, topics: [orders]", "target: c").replace(
        "  c: {", "  d: {bootstrap.servers: d}\n  c: {"
    )
    found = blended(tmp_path, moved)
    assert found.waiting == ("a->b: the flow was removed", "a->c: the flow was added", "clusters.d")
    assert found.root.flows == root(tmp_path, BASE).flows and list(found.root.clusters) == ["a", "b", "c"]


def test_a_flow_is_known_by_its_ends_wherever_it_stands(tmp_path: Path) -> None:
    two = BASE + "  - {source: a, target: c}\n"
    swapped = BASE.replace("{source: a, target: b, topics: [orders]}", "{source: a, target: c, topics: [x]}")
    found = blended(tmp_path, swapped + "  - {source: a, target: b, topics: [orders]}\n", two)
    assert found.applied == ("a->c: topics",) and not found.waiting
    assert [(flow.target, flow.topics) for flow in found.root.flows] == [("b", ["orders"]), ("c", ["x"])]


def test_a_name_of_the_group_that_is_the_default_one_is_no_change(tmp_path: Path) -> None:
    found = blended(tmp_path, BASE.replace("topics:", "group: mirror-a-b, topics:"))
    assert not found.applied and not found.waiting


def test_a_flow_whose_new_keys_do_not_go_with_what_waits_keeps_the_old_ones(tmp_path: Path) -> None:
    """Both files are valid: in the new one nothing brings records back. But that flow runs until the next start.

    What is not about the other flow changes.
    """
    before = BASE.replace("topics: [orders]", "topics: [orders], replication_policy: identity")
    others = "  - {source: a, target: c, topics: [x]}\n"
    back = "  - {source: b, target: a, topics: [bills], replication_policy: identity}\n"
    after = before.replace("[orders]", "[orders, bills]") + others.replace("[x]", "[y]") + "log: {level: debug}\n"
    found = blended(tmp_path, after, before + others + back)
    assert found.applied == ("log.level", "a->c: topics")
    removed, held = found.waiting
    assert removed == "b->a: the flow was removed"
    assert held.startswith("a->b: topics (all of the flow's keys wait") and "records would go round for ever" in held
    assert found.root.flows[0] == root(tmp_path, before + others + back).flows[0]


def test_flows_are_not_in_conflict_with_one_that_waits(tmp_path: Path) -> None:
    """They swap their topics, and a key of the one waits. So the other one can't have its topics either."""
    before = BASE.replace("topics: [orders]", "topics: [orders], replication_policy: identity")
    before += "  - {source: c, target: b, topics: [bills], replication_policy: identity}\n"
    after = before.replace("orders", "x").replace("bills", "orders").replace("x", "bills")
    assert blended(tmp_path, after, before).applied == ("a->b: topics", "c->b: topics")
    grouped = after.replace("[orders],", "[orders], groups: {sync: true}, exactly_once: true,")
    base = before.replace("[bills],", "[bills], exactly_once: false,")
    found = blended(tmp_path, grouped, base)
    assert not found.applied and found.root == root(tmp_path, base)
    needs, other = found.waiting
    assert needs.startswith("c->b: topics, groups.sync, exactly_once (all of the flow's keys wait")
    assert other.startswith("a->b: topics (all of the flow's keys wait") and "writes to bills of the same" in other


def test_the_mark_waits_for_the_next_start(tmp_path: Path) -> None:
    """Tasks that run on would copy records without the header. So topics in common have to wait with it."""
    apart = BASE.replace("topics: [orders]", "topics: [orders], replication_policy: identity")
    apart += "  - {source: b, target: a, topics: [bills], replication_policy: identity, sync_topic_configs: false}\n"
    marked = apart.replace("identity", "identity, active_active: true")
    found = blended(tmp_path, marked, apart)
    assert (found.applied, found.waiting) == ((), ("a->b: active_active", "b->a: active_active"))
    found = blended(tmp_path, marked.replace("[bills]", "[orders]"), apart)
    assert not found.applied and found.root == root(tmp_path, apart)
    *waiting, held = found.waiting
    assert waiting == ["a->b: active_active", "b->a: active_active"]
    assert held == "b->a: topics (waits with active_active, which may be meant for the same topics)"


def with_entries(entries: str, topics: str = "orders, bills") -> str:
    return BASE.replace("topics: [orders]", f"topics: [{topics}], topic_settings: {{{entries}}}")


@pytest.mark.parametrize(
    ("before", "after", "applied", "waiting", "in_force"),
    [
        pytest.param(
            "orders: {on_data_loss: skip}", "orders: {on_poison_record: skip}", ["on_data_loss", "on_poison_record"],
            [], {"orders": {"on_poison_record": "skip"}}, id="policies change, come and go",
        ),
        pytest.param(
            "orders: {throttle: 1MB}", "orders: {throttle: 2MB}", ["throttle"],
            [], {"orders": {"throttle": 2_000_000}}, id="the throttle changes",
        ),
        pytest.param(
            "", "orders: {remote_topic: eu, start: latest, on_data_loss: skip}", ["on_data_loss"],
            ["remote_topic", "start"], {"orders": {"on_data_loss": "skip"}}, id="an entry comes",
        ),
        pytest.param(
            "orders: {remote_topic: eu, start: latest, on_data_loss: skip}", "", ["on_data_loss"],
            ["remote_topic", "start"], {"orders": {"remote_topic": "eu", "start": "latest"}}, id="an entry goes",
        ),
        pytest.param(
            "orders: {remote_topic: eu}", "orders: {remote_topic: us}", [], ["remote_topic"],
            {"orders": {"remote_topic": "eu"}}, id="the name of a topic that is copied changes",
        ),
        pytest.param("", "orders: {on_data_loss: null}", [], [], {}, id="an entry says nothing"),
        pytest.param(
            "", "orders: {transform: shop.f}", [], ["transform"], {}, id="a transform comes",
        ),
        pytest.param(
            "orders: {transform: shop.f}", "", [], ["transform"], {"orders": {"transform": "shop.f"}},
            id="a transform goes",
        ),
    ],
)  # fmt: skip
def test_of_a_topic_that_is_copied_the_policies_change_and_the_name_and_start_stay(
    tmp_path: Path, before: str, after: str, applied: list[str], waiting: list[str], in_force: dict[str, Any]
) -> None:
    found = blended(tmp_path, with_entries(after), with_entries(before))
    assert sorted(found.applied) == [f"a->b: topic_settings.orders.{key}" for key in applied]
    assert sorted(found.waiting) == [f"a->b: topic_settings.orders.{key}" for key in waiting]
    entries = found.root.flows[0].topic_settings
    assert {topic: entry.model_dump(exclude_none=True) for topic, entry in entries.items()} == in_force


@pytest.mark.parametrize(
    ("changed", "topics", "waiting", "key"),
    [
        pytest.param(
            BASE.replace("topics: [orders]", "topics: [orders, bills], transform: shop.f"),
            "topics", ["a->b: transform"], "transform", id="of the flow",
        ),
        pytest.param(
            with_entries("bills: {transform: shop.f, on_data_loss: skip}").replace("orders,", "orders, cash,"),
            "topics, topic_settings.bills.on_data_loss, topic_settings.bills.transform", [],
            "topic_settings.bills.transform", id="of a topic that comes",
        ),
        pytest.param(
            with_entries("orders: {transform: shop.f}, bills: {transform: shop.f}").replace("orders,", "orders, cash,"),
            "topics, topic_settings.bills.transform", ["a->b: topic_settings.orders.transform"],
            "topic_settings.bills.transform", id="of two",
        ),
        *(
            pytest.param(
                BASE.replace("topics: [orders]", f"topics: [orders, bills], append_to_existing: true, {key}: {value}"),
                "topics, append_to_existing", [f"a->b: {key}"], key, id=key,
            )
            for key, value in {
                "start": "latest", "group": "another", "replication_policy": "identity", "separator": "_",
                "remote_topic": "'eu.{topic}'",
            }.items()
        ),
        pytest.param(
            BASE.replace("[orders]", "[orders, bills]").replace("a:9092", "elsewhere:9092"),
            "topics", ["clusters.a.bootstrap.servers"], "clusters.a.bootstrap.servers", id="the cluster",
        ),
    ],
)  # fmt: skip
def test_topics_come_only_with_what_says_how_they_begin(
    tmp_path: Path, changed: str, topics: str, waiting: list[str], key: str
) -> None:
    """Otherwise a topic could be copied as it is whose records the transform is to mask. All else changes."""
    found = blended(tmp_path, changed.replace("source: a,", "source: a, throttle: 1MB,") + "log: {level: debug}\n")
    assert found.applied == ("log.level", "a->b: throttle")
    *others, held = found.waiting
    assert others == waiting
    assert held == f"a->b: {topics} (waits with {key}, which may be meant for the same topics)"
    assert [(flow.topics, flow.topic_settings) for flow in found.root.flows] == [(["orders"], {})]


def test_nothing_is_appended_to_before_the_start_that_is_meant_for_it(tmp_path: Path) -> None:
    """Or a topic that waits for a decision about its records would be copied once more from its beginning."""
    changed = with_entries("orders: {start: latest}").replace("topics:", "append_to_existing: true, topics:")
    found = blended(tmp_path, changed)
    assert found.applied == ("a->b: topics",) and not found.root.flows[0].append_to_existing
    start, held = found.waiting
    assert start == "a->b: topic_settings.orders.start" and held.startswith("a->b: append_to_existing (waits with")
    assert blended(tmp_path, BASE.replace("topics:", "append_to_existing: true, topics:")).applied


def test_topics_do_not_go_without_their_transform(tmp_path: Path) -> None:
    """Tasks keep it. If such a topic came back without it, it would be copied with it."""
    before = with_entries("bills: {transform: shop.f}")
    found = blended(tmp_path, BASE + "log: {level: debug}\n", before)
    assert found.applied == ("log.level",) and found.root.flows == root(tmp_path, before).flows
    assert found.waiting[0] == "a->b: topic_settings.bills.transform" and found.waiting[1].startswith("a->b: topics (")


def test_other_topics_come_beside_the_transform_of_a_topic_that_stays(tmp_path: Path) -> None:
    changed = with_entries("orders: {transform: shop.f, on_data_loss: skip}")
    found = blended(tmp_path, changed)
    assert found.applied == ("a->b: topics", "a->b: topic_settings.orders.on_data_loss")
    assert found.waiting == ("a->b: topic_settings.orders.transform",)
    assert found.root.flows[0].topics == ["orders", "bills"]


@pytest.mark.parametrize("own", ["", ", transform: shop.f", ", topic_settings: {bills: {transform: shop.f}}"])
def test_a_flow_that_waits_for_the_next_start_holds_up_no_other_change(tmp_path: Path, own: str) -> None:
    """Its transform, and that it has none, is for its own topics only."""
    two = BASE + f"  - {{source: b, target: c, topics: [orders, bills]{own}}}\n"
    changed = "log: {level: debug}\nflow_defaults: {throttle: 1MB}\n"
    for before, after, said in ((BASE, two, "added"), (two, BASE, "removed")):
        found = blended(tmp_path, after.replace("[orders]", "[orders, bills]") + changed, before)
        applied = ["log.level", "a->b: throttle", "a->b: topics"]
        assert sorted(each for each in found.applied if "b->c" not in each) == sorted(applied)
        assert found.waiting == (f"b->c: the flow was {said}",)
        assert [flow.target for flow in found.root.flows] == [flow.target for flow in root(tmp_path, before).flows]


def test_a_topic_comes_with_its_own_name_and_start_and_goes_with_them(tmp_path: Path) -> None:
    """Nothing is copied under a name that the next start would replace, and nothing stays of a topic that goes."""
    entry = "bills: {remote_topic: eu, start: latest}"
    changed = ["a->b: topic_settings.bills.remote_topic", "a->b: topic_settings.bills.start", "a->b: topics"]
    for before, after in ((BASE, with_entries(entry)), (with_entries(entry), BASE)):
        found = blended(tmp_path, after, before)
        assert sorted(found.applied) == changed and not found.waiting
        assert found.root.flows == root(tmp_path, after).flows


def test_each_key_that_takes_effect_at_a_reload_does(tmp_path: Path) -> None:
    """For each of them there is another value, and the blend has it."""
    others = {
        "topics": ["x"], "exclude": ["x"], "replication_factor": 3, "internal_replication_factor": 3,
        "refresh_topics_interval": 7.0, "tasks_max": 7, "sync_topic_configs": False, "sync_acls": True,
        "sync_topic_configs_interval": 7.0, "exclude_configs": ["x"], "use_defaults_from": "source",
        "sync_acls_interval": 7.0, "sync": True, "checkpoints": False, "include": ["x"], "interval": 7.0,
        "enabled": True, "topic": "x", "connector": "x", "transaction_linger_max": 7.0, "producer_idle_timeout": 7.0,
        "open_transaction_warn_after": 7.0, "append_to_existing": True, "on_data_loss": "skip",
        "on_poison_record": "skip", "throttle": 7_000, "data_path": "records",
    }  # fmt: skip
    running = root(tmp_path, BASE)
    for section, keys in EFFECTS.items():
        for key, effect in keys.items():
            if section.startswith("flows[]") and "<" not in section and effect is not Effect.START:
                flow = running.flows[0]
                part = section.removeprefix("flows[]").removeprefix(".")
                inner: BaseModel = getattr(flow, part) if part else flow
                changed: BaseModel = inner.model_copy(update={key: others[key]})
                assert changed != inner, key
                new = flow.model_copy(update={part: changed}) if part else changed
                found = blend(running, running.model_copy(update={"flows": [new]}))
                assert found.root.flows == [new], key
                assert found.applied == (f"a->b: {part}.{key}" if part else f"a->b: {key}",)


def test_what_the_plan_carries_is_what_the_table_says() -> None:
    of_topic = EFFECTS["flows[].topic_settings.<topic>"]
    assert {each.name for each in fields(TopicSettings)} == of_topic.keys()
    others = [keys for keys in EFFECTS.values() if keys is not of_topic]
    in_table = {key for keys in others for key, effect in keys.items() if effect is Effect.PLAN}
    carried = {each.name for each in fields(TaskSettings)} - {"log_level", "topic_settings"}
    assert in_table == carried | {"level"}


def test_flow_defaults_have_no_key_of_their_own() -> None:
    assert FlowDefaultsModel.model_fields.keys() <= EFFECTS["flows[]"].keys() | {
        "groups",
        "heartbeats",
        "canary",
        "mirrormaker_offsets",
        "topic_settings",
    }


def test_what_is_read_again_from_its_file_waits_for_nothing(tmp_path: Path) -> None:
    """A new password in the file of a cluster or of the HTTP server is no change to wait for; another file is one."""
    before = BASE.replace("${env:PASSWORD}", "${file:one}") + "http: {username: u, password: '${file:one}'}\n"
    (tmp_path / "one").write_text("first\n")
    (tmp_path / "two").write_text("second\n")
    file = tmp_path / "mirror.yaml"
    file.write_text(before)
    configuration = Configuration([file], {})
    (flow,) = configuration.settings.flows
    assert flow.source.files == {"sasl.password": str(tmp_path / "one")} and not flow.target.files
    assert configuration.settings.http.password_file == str(tmp_path / "one")
    (tmp_path / "one").write_text("changed\n")
    found = configuration.reload()
    assert (found.applied, found.waiting) == ((), ())
    assert found.settings.flows[0].source.files == flow.source.files
    file.write_text(before.replace("file:one", "file:two"))
    assert configuration.reload().waiting == ("http.password", "clusters.a.sasl.password")


def test_a_standby_does_not_wait_anew_for_a_changed_password(tmp_path: Path) -> None:
    """Who needs it has read it already. A change of anything else makes other settings."""
    (tmp_path / "one").write_text("first\n")
    file = tmp_path / "mirror.yaml"
    file.write_text(BASE.replace("${env:PASSWORD}", "${file:one}"))
    configuration = Configuration([file], {})
    (tmp_path / "one").write_text("changed\n")
    assert configuration.replace(lambda _: None).applied == () and configuration.replaced == 0
    file.write_text(file.read_text() + "log: {level: debug}\n")
    assert configuration.replace(lambda _: None).applied == ("log.level",)
    assert configuration.settings.log.level == "debug" and configuration.replaced == 1


def test_an_address_in_a_file_is_not_followed(tmp_path: Path) -> None:
    """Clients would be on two clusters for a while."""
    (tmp_path / "address").write_text("one:9092\n")
    file = tmp_path / "mirror.yaml"
    file.write_text(BASE.replace('bootstrap.servers: "a:9092"', "bootstrap.servers: '${file:address}'", 1))
    configuration = Configuration([file], {"PASSWORD": "p"})
    assert not configuration.settings.flows[0].source.files
    (tmp_path / "address").write_text("other:9092\n")
    assert configuration.reload().waiting == ("clusters.a.bootstrap.servers",)


def test_a_text_with_more_than_one_reference_to_a_file_is_of_no_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("first\n")
    file = tmp_path / "mirror.yaml"
    file.write_text(BASE.replace("${env:PASSWORD}", "x${file:one}"))
    assert not Configuration([file], {}).settings.flows[0].source.files
