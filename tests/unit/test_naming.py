"""Which topics are mirrored, and under which names."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.flow_model import FlowModel
from mirror.naming import EXCLUDED_GROUPS, EXCLUDED_TOPICS, ReplicationPolicy, matcher, some_of
from mirror.settings import Canary, Cluster, Flow, Groups, Heartbeats, MirrorMakerOffsets, TopicSettings
from mirror.topic_selection import MOVED, left_out_topics, select_topics
from mirror.unmatched_entries import groups_match_nothing, matches_nothing, unmatched, warning

DEFAULTS = FlowModel.model_validate(
    {"source": "primary", "target": "backup"}, context={"aliases": ["primary", "backup"]}
)


def flow(**changes: Any) -> Flow:
    """A flow from `primary` to `backup` with the configuration's defaults, except for `changes`."""
    empty: dict[str, str] = {}
    values = DEFAULTS.model_dump() | {
        "source": Cluster("primary", empty, empty, empty),
        "target": Cluster("backup", empty, empty, empty),
        "group": "group",
        "groups": Groups(**DEFAULTS.groups.model_dump()),
        "heartbeats": Heartbeats(**DEFAULTS.heartbeats.model_dump()),
        "canary": Canary(**DEFAULTS.canary.model_dump()),
        "mirrormaker_offsets": MirrorMakerOffsets(**DEFAULTS.mirrormaker_offsets.model_dump()),
    }
    return replace(Flow(**values), **changes)


def policy(**changes: Any) -> ReplicationPolicy:
    """The policy of a flow with these `changes`."""
    return ReplicationPolicy.of(flow(**changes))


def own_name(name: str) -> TopicSettings:
    """A topic's settings with its own remote topic."""
    return TopicSettings(name, None, None, None, None)


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("a.b", "a.b", True),
        ("a.b", "axb", False),  # legal characters only: it is a name, so the dot is a dot
        ("a.b|c", "axb", True),
        ("a.*", "abc", True),
        ("a.*", "ba", False),
        ("[ab]", "a", True),
        ("x|a.*", "abc", True),
        ("ab|cd", "abd", False),
    ],
)
def test_a_name_is_a_name_and_an_expression_matches_the_whole(pattern: str, topic: str, matches: bool) -> None:
    assert matcher([pattern])(topic) is matches


def test_patterns_do_not_affect_each_other() -> None:
    chosen = matcher(["a|b", "c", "d.*"])
    assert [name for name in ("a", "b", "c", "d", "dx", "ab", "e") if chosen(name)] == ["a", "b", "c", "d", "dx"]


def test_nothing_matches_no_patterns() -> None:
    assert not matcher([])("") and not matcher([])("a")


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", ".hidden", "mm2-configs.x.internal", "a-internal", "a.internal"]
)
def test_internal_topics_are_never_mirrored(name: str) -> None:
    assert not policy(topics=(".*", name), exclude=()).is_mirrored(name)


MIRRORMAKERS_OWN = (
    *("mm2-offset-syncs_backup_internal", "primary_checkpoints_internal", "a_b_checkpoints_internal"),
    *("mm2-offset-syncs.backup.internal", "mm2-configs.primary.internal", "primary.checkpoints.internal"),
)


@pytest.mark.parametrize("named", ["default", "identity"])
@pytest.mark.parametrize("name", MIRRORMAKERS_OWN)
def test_mirrormakers_own_topics_are_never_mirrored(name: str, named: str) -> None:
    """DefaultReplicationPolicy of Kafka 4.2 calls these internal with `replication.policy.separator = _`."""
    some = policy(topics=(".*", name), exclude=(), separator="_", replication_policy=named)
    assert not some.is_mirrored(name)
    reason = some.left_out(name)
    assert reason and reason.startswith("internal") and (("separator" in reason) == ("_internal" in name))


def test_a_template_with_the_separator_names_mirrormakers_own_topics_too() -> None:
    assert not policy(topics=(".*",), remote_topic="{source}_{topic}").is_mirrored("mm2-offset-syncs_backup_internal")


@pytest.mark.parametrize("name", ["orders_internal", "internal", "checkpoints_internal", "mm2", "mm2-x.y_z"])
def test_users_topics_with_the_separator_are_mirrored(name: str) -> None:
    """As with MirrorMaker, which looks for `mm2` at the beginning, or for `_checkpoints_internal` at the end."""
    assert policy(topics=(".*",), separator="_").is_mirrored(name)


def test_with_a_dot_the_separator_counts_nothing_else() -> None:
    assert policy(topics=(".*",)).is_mirrored("mm2-offset-syncs_backup_internal"), "MirrorMaker copies it, too"


@pytest.mark.parametrize(
    ("name", "mirrored"),
    [("orders", True), ("a.replica", False), ("internal", True), ("_schemas", True), ("backup.orders", False)],
)
def test_the_default_filters(name: str, mirrored: bool) -> None:
    assert policy().is_mirrored(name) is mirrored


@pytest.mark.parametrize(
    ("topic", "word"),
    [
        ("orders", None),
        ("other", None),  # `topics` does not match it: nobody asked for it
        ("__orders", "internal"),
        (".orders", "internal"),
        ("orders-internal", "internal"),
        ("orders.internal", "internal"),
        ("backup.orders", 'alias "backup"'),
        ("orders.replica", '".*\\.replica" in exclude'),
    ],
)
def test_a_topic_that_is_left_out_has_a_reason(topic: str, word: str | None) -> None:
    some = policy(topics=(".*orders.*",))
    reason = some.left_out(topic)
    assert (word in reason) if word and reason else reason is word
    assert some.is_mirrored(topic) is (topic == "orders")


def test_topics_that_are_left_out_are_listed_by_reason() -> None:
    found = left_out_topics(policy(), ["b.internal", "a-internal", "orders", "backup.orders"])
    assert sorted(found.values()) == [["a-internal", "b.internal"], ["backup.orders"]]
    assert some_of(["a", "b"]) == "a, b"
    assert some_of([f"t{n}" for n in range(12)]).endswith("t9, and 2 more")
    assert some_of(["\x1b[2J\n", "g" * 32_000]) == "?[2J?, " + "g" * 255
    assert some_of(["t" * 249]) == "t" * 249, "no topic's name is cut"


def test_excludes_win() -> None:
    chosen = policy(topics=("orders", "payments"), exclude=("pay.*",))
    assert chosen.is_mirrored("orders") and not chosen.is_mirrored("payments")


def test_the_flows_own_topics_are_mirrored_nowhere() -> None:
    ours = flow()
    assert len(ours.own_topics) == 5
    for name in ours.own_topics:
        assert not policy(topics=(".*",), exclude=()).is_mirrored(name)


def test_remote_names() -> None:
    assert policy().remote_topic("orders") == "primary.orders"
    assert policy(separator="_").remote_topic("orders") == "primary_orders"
    assert policy(replication_policy="identity").remote_topic("orders") == "orders"


def test_heartbeats_are_mirrored_whatever_the_filters_say_and_have_an_alias_before_their_name() -> None:
    rules: dict[str, Any] = {"topics": ("orders",), "exclude": (".*beats",)}
    on = Heartbeats(True, 1.0)
    for name in ("default", "identity"):
        chosen = policy(**rules, replication_policy=name, heartbeats=on)
        assert chosen.is_mirrored("heartbeats") and chosen.is_mirrored("third.heartbeats")
        assert not chosen.is_mirrored("backup.heartbeats") and not chosen.is_mirrored("myheartbeats")
        assert chosen.remote_topic("heartbeats") == "primary.heartbeats"
        assert not policy(**rules, replication_policy=name).is_mirrored("heartbeats")
    assert policy(replication_policy="identity").remote_topic("heartbeats") == "heartbeats"


@pytest.mark.parametrize(
    ("topic", "cycle"),
    [
        ("orders", False),
        ("backup", False),  # a topic of that name, not an alias before one
        ("backup.orders", True),
        ("third.backup.orders", True),
        ("backup.third.orders", True),
        ("backups.orders", False),
        ("orders.backup", False),
        ("third.orders", False),
    ],
)
def test_a_topic_that_comes_from_the_target_is_not_copied_back(topic: str, cycle: bool) -> None:
    assert policy().is_cycle(topic) is cycle
    assert policy().is_mirrored(topic) is not cycle
    assert not policy(replication_policy="identity").is_cycle(topic), "identity can't tell"


def test_a_cycle_is_recognised_by_the_flows_separator() -> None:
    assert policy(separator="_").is_cycle("backup_orders") and not policy(separator="_").is_cycle("backup.orders")


NAMES = st.text("abc._-", min_size=1, max_size=20)


@given(NAMES, NAMES, NAMES, st.text("._-", min_size=1, max_size=2))
def test_a_remote_topic_never_comes_back(topic: str, source: str, target: str, separator: str) -> None:
    one = flow(separator=separator)
    one = replace(one, source=replace(one.source, alias=source), target=replace(one.target, alias=target))
    there = ReplicationPolicy.of(one).remote_topic(topic)
    back = replace(one, source=one.target, target=one.source)
    assert not ReplicationPolicy.of(back).is_mirrored(there)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["orders", "pay.*"], []),
        ([".*"], []),
        (["ordres"], [("ordres", "orders")]),
        (["Orders"], [("Orders", "orders")]),
        (["orders", "paymnets"], [("paymnets", "payments")]),
        ([r"user\.event"], [(r"user\.event", "user.events")]),
        (["order[0-9]"], [("order[0-9]", None)]),
        (["unlike"], [("unlike", None)]),
        (["orders", "orders2"], [("orders2", None)]),  # what is copied already was not meant
        (["pay.*", "payment"], [("payment", None)]),
        (["__consumer_offset"], [("__consumer_offset", None)]),  # never copied, so it does not help
    ],
)
def test_entries_that_match_no_topic(patterns: list[str], expected: list[tuple[str, str | None]]) -> None:
    assert unmatched(patterns, ["orders", "payments", "user.events", "__consumer_offsets"]) == expected


def test_without_any_topic_no_entry_is_wrong() -> None:
    """The source may be new, or show mirror nothing: that is told elsewhere."""
    assert unmatched(["orders"], []) == []


def test_only_some_of_many_wrong_entries_are_compared_with_some_of_many_topics() -> None:
    topics = [f"topic-{number}" for number in range(20_000)]
    found = unmatched([f"nothing{number}" for number in range(300)], topics)
    assert len(found) == 300


def test_comparisons_end_in_time() -> None:
    """The flow's thread makes them before its first plan, and names may be so alike that they take minutes."""
    now, alike = 0.0, "x" * 100

    def clock() -> float:
        nonlocal now
        now += 0.1
        return now

    found = unmatched([f"{alike}-a", f"{alike}-b"], [f"{alike}{number}" for number in range(100)], clock)
    assert [near is not None for _, near in found] == [True, False]
    assert now < 2, "each comparison has taken a tenth of a second, so there were about ten"


def test_an_entry_that_matches_nothing_has_a_remedy() -> None:
    some = flow(topics=("ordres", "xyz", "b"), topic_settings={"c": own_name("d")})
    assert list(matches_nothing(some, ["orders", "b"])) == [
        ('"ordres" in topics matches no topic of the source that mirror may see', 'did you mean "orders"?'),
        (
            '"xyz" in topics matches no topic of the source that mirror may see',
            "correct it, create the topic, or allow Describe on it",
        ),
        (
            '"c" in topic_settings matches no topic of the source that mirror may see',
            "correct it, create the topic, or allow Describe on it",
        ),
    ]


def test_an_entry_that_excludes_nothing_has_a_remedy() -> None:
    """Those of the default exclude nothing on most clusters, also in a list with others."""
    some = flow(topics=(".*",), exclude=(*EXCLUDED_TOPICS, "secrts", r"tmp-\d+", "b", "x.*"))
    said = "in exclude matches no topic of the source that mirror may see"
    later = "leave it if it is for topics that come later"
    assert list(matches_nothing(some, ["secrets", "b", "xy"])) == [
        (f'"secrts" {said}', f'did you mean "secrets"? Or {later}'),
        (f'"tmp-\\d+" {said}', f"correct it, or {later}"),
    ]
    assert not list(matches_nothing(some, [])) and not list(matches_nothing(flow(), ["orders"]))


def groups(include: tuple[str, ...], exclude: tuple[str, ...] = ()) -> Groups:
    return replace(flow().groups, include=include, exclude=exclude)


def test_a_group_that_is_not_there_has_a_remedy() -> None:
    known = ["billing", "audit-1"]
    found = list(groups_match_nothing(groups(("biling", "audit.*", "x")), known))
    end = "in groups.include matches no consumer group of the source that mirror may see"
    assert found == [
        (f'"biling" {end}', 'did you mean "billing"?'),
        (f'"x" {end}', "correct it, or allow Describe on the group if it exists"),
    ]
    assert warning(found[:1]) == f'"biling" {end}; did you mean "billing"?'
    assert warning([]) == ""
    assert warning(found * 50).endswith(". and 90 more"), "a line of the log has an end"


def test_an_entry_that_excludes_no_group_has_a_remedy() -> None:
    known = ["billing", "audit-1"]
    found = list(groups_match_nothing(groups((".*",), (*EXCLUDED_GROUPS, "biling", "audit.*", "x")), known))
    end = "in groups.exclude matches no consumer group of the source that mirror may see"
    later = "leave it if it is for consumer groups that come later"
    assert found == [
        (f'"biling" {end}', f'did you mean "billing"? Or {later}'),
        (f'"x" {end}', f"correct it, or {later}"),
    ]
    assert not list(groups_match_nothing(flow().groups, known))


def test_a_template_names_remote_topics() -> None:
    chosen = policy(remote_topic="{topic}.of.{source}")
    assert chosen.remote_topic("orders") == "orders.of.primary"
    assert chosen.is_mirrored("orders") and chosen.is_mirrored("orders.of.third")
    assert not chosen.is_mirrored("orders.of.backup") and not chosen.is_mirrored("orders.of.backup.of.third")
    assert "a cycle" in (chosen.left_out("orders.of.backup") or "")
    assert chosen.is_mirrored("backup.orders"), "only the template counts"


def test_heartbeats_have_their_name_with_any_template() -> None:
    on: dict[str, Any] = {"heartbeats": Heartbeats(True, 1.0)}
    for template in ("eu-{topic}", "{topic}.of.{source}", "{topic}"):
        chosen = policy(remote_topic=template, **on)
        assert chosen.remote_topic("heartbeats") == "primary.heartbeats"
        assert chosen.remote_topic("third.heartbeats") == "primary.third.heartbeats"
        assert chosen.is_cycle("backup.heartbeats")
    chosen = policy(remote_topic="{source}_{topic}", **on)  # MirrorMaker's default policy with this separator
    assert chosen.remote_topic("heartbeats") == "primary_heartbeats" and chosen.is_cycle("backup_heartbeats")


@given(
    NAMES,
    st.lists(NAMES, min_size=2, max_size=3, unique=True),
    st.sampled_from(["{topic}-of-{source}", "a{source}.{topic}b", "{source}--{topic}"]),
)
def test_no_topic_comes_back_over_any_clusters_if_all_flows_have_one_template_with_a_source(
    topic: str, clusters: list[str], template: str
) -> None:
    def way(source: str, target: str) -> ReplicationPolicy:
        one = flow(remote_topic=template, topics=(".*",), exclude=())
        return ReplicationPolicy.of(
            replace(one, source=replace(one.source, alias=source), target=replace(one.target, alias=target))
        )

    name = topic
    for source, target in pairwise(clusters):
        name = way(source, target).remote_topic(name)
    assert not way(clusters[-1], clusters[0]).is_mirrored(name)


@pytest.mark.parametrize(
    ("changes", "topic", "problem"),
    [
        ({"remote_topic": "eu-{topic}"}, "x" * 247, "more than 249 characters"),
        ({"remote_topic": "eu-{topic}"}, "x" * 246, None),
        ({}, "x" * 242, "more than 249 characters"),
        ({"remote_topic": "eu-{topic}"}, "internal", "of an internal one"),
        ({"separator": "-"}, "internal", None),  # MirrorMaker copies it, too
        ({"remote_topic": "heart{topic}"}, "beats", "its remote topic would be heartbeats"),
        ({"replication_policy": "identity"}, "heartbeats", None),
        (
            {"replication_policy": "identity", "mirrormaker_offsets": MirrorMakerOffsets(True, "offsets", "c")},
            "offsets",
            "its remote topic would be offsets",
        ),
        (
            {"replication_policy": "identity", "mirrormaker_offsets": MirrorMakerOffsets(False, "offsets", "c")},
            "offsets",
            None,
        ),
    ],
)
def test_names_that_remote_topics_can_not_have(changes: dict[str, Any], topic: str, problem: str | None) -> None:
    chosen = policy(**changes)
    found = chosen.name_problem(topic)
    assert (problem in found) if problem and found else found is problem
    assert chosen.is_mirrored(topic) is (problem is None)
    selected = select_topics(chosen, [topic], dict)
    assert selected.unnamed == ({found: [topic]} if found else {})
    assert list(selected.remotes) == ([] if found else [topic])


# Heartbeats keep their name, which the template gives to another topic.
SHARING: dict[str, Any] = {"remote_topic": "{topic}.heartbeats", "heartbeats": Heartbeats(True, 1.0)}


@pytest.mark.parametrize(
    ("held", "mirrored", "reason"),
    [
        ({}, ["orders"], "they would share the remote topic primary.heartbeats; give each of them another one"),
        (
            {"primary.heartbeats": "heartbeats"},
            ["heartbeats", "orders"],
            "its remote topic would be primary.heartbeats, which holds the copy of heartbeats",
        ),
        (
            {"primary.heartbeats": "gone"},
            ["orders"],
            "its remote topic would be primary.heartbeats, which holds the copy of gone",
        ),
    ],
)
def test_of_topics_that_would_share_a_remote_topic_only_its_holder_is_mirrored(
    held: dict[str, str], mirrored: list[str], reason: str
) -> None:
    selected = select_topics(policy(**SHARING), ["orders", "primary", "heartbeats"], lambda: held)
    assert sorted(selected.remotes) == mirrored
    lacking = sorted({"heartbeats", "orders", "primary"} - set(mirrored))
    assert selected.unnamed == {reason: lacking}


def test_the_holders_are_not_asked_for_if_no_topics_share_a_remote_topic() -> None:
    def holders() -> dict[str, str]:
        raise AssertionError

    assert select_topics(policy(), ["orders", "payments", "x-internal"], holders).remotes.keys() == {
        "orders",
        "payments",
    }


def test_a_topic_whose_remote_topic_has_the_copy_of_another_one_is_not_mirrored_by_a_service() -> None:
    """Its copy got that name by a setting that is gone, so by the settings no topics share a remote topic."""
    selected = select_topics(policy(replication_policy="identity"), ["orders", "eu"], lambda: {"eu": "orders"}, True)
    assert selected.remotes == {"orders": "orders"}
    assert selected.unnamed == {"its remote topic would be eu, which holds the copy of orders": ["eu"]}


def test_a_topic_may_have_a_name_of_its_own() -> None:
    chosen = policy(topic_settings={"orders": own_name("eu-orders"), "other": TopicSettings(None, 0, None, None, None)})
    assert chosen.remote_topic("orders") == "eu-orders"
    assert chosen.remote_topic("other") == "primary.other" and chosen.remote_topic("third") == "primary.third"
    assert not policy(topic_settings={"orders": own_name("a.internal")}).is_mirrored("orders")
    assert not policy(topic_settings={"orders": own_name("heartbeats")}).is_mirrored("orders")


def test_a_name_that_a_topic_has_as_its_own_is_no_other_topics_name() -> None:
    """The name stays reserved even if the topic that has it is not mirrored now."""
    chosen = policy(replication_policy="identity", topic_settings={"orders": own_name("eu")})
    both = select_topics(chosen, ["orders", "eu", "us"], dict)
    assert both.remotes == {"us": "us"}
    assert both.unnamed == {"they would share the remote topic eu; give each of them another one": ["eu", "orders"]}
    first = select_topics(chosen, ["orders", "eu", "us"], lambda: {"eu": "orders", "us": "us"})
    assert first.remotes == {"orders": "eu", "us": "us"}
    assert first.unnamed == {"its remote topic would be eu, which holds the copy of orders": ["eu"]}
    retired = select_topics(chosen, ["orders", "us"], lambda: {"eu": "eu"})
    assert retired.remotes == {"us": "us"}
    assert retired.unnamed == {"its remote topic would be eu, which holds the copy of eu": ["orders"]}


class Dashes:
    """A policy of a user's own."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        return "same" if topic.startswith("same") else f"{source}--{topic}"

    def topic_source(self, topic: str) -> str | None:
        return topic.split("--", maxsplit=1)[0] if "--" in topic else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.split("--", 1)[1] if "--" in topic else None

    def is_internal_topic(self, topic: str) -> bool:
        if topic.startswith("wrong"):
            raise KeyError(topic)
        return topic.startswith("_")


OWN: dict[str, Any] = {"replication_policy": f"{__name__}.{Dashes.__name__}"}


def test_a_policy_of_the_users_own_names_and_leaves_out_topics() -> None:
    chosen = policy(**OWN, exclude=("secret",), heartbeats=Heartbeats(True, 1.0))
    found = ["orders", "_state", "backup--orders", "secret", "wrong", "heartbeats", "x.internal"]
    selected = select_topics(chosen, found, dict)
    assert selected.remotes == {"orders": "primary--orders", "heartbeats": "primary.heartbeats"}
    assert selected.left_out == {
        "internal: its replication policy says so": ["_state"],
        'a cycle: its replication policy says that it comes from "backup"': ["backup--orders"],
        '"secret" in exclude matches it': ["secret"],
        'internal: the name begins with "__" or ".", or ends in "-internal" or ".internal"': ["x.internal"],
    }
    (problem,) = selected.unnamed
    assert "Dashes fails in is_internal_topic: KeyError" in problem and selected.unnamed[problem] == ["wrong"]


def test_topics_for_which_a_policy_of_the_users_own_gives_one_name_are_refused() -> None:
    neither = select_topics(policy(**OWN), ["orders", "same1", "same2"], dict)
    assert neither.remotes == {"orders": "primary--orders"}
    assert list(neither.unnamed.values()) == [["same1", "same2"]]
    one = select_topics(policy(**OWN), ["same1", "same2"], lambda: {"same": "same1"})
    assert one.remotes == {"same1": "same"}
    assert one.unnamed == {"its remote topic would be same, which holds the copy of same1": ["same2"]}


def test_a_topic_that_is_copied_does_not_move_when_a_policy_of_the_users_own_changes() -> None:
    held = {"old--orders": "orders", "primary--payments": "payments", "old--heartbeats": "heartbeats"}
    changes: dict[str, Any] = {**OWN, "heartbeats": Heartbeats(True, 1.0)}
    found = ["orders", "payments", "refunds", "heartbeats"]
    selected = select_topics(policy(**changes), found, lambda: held)
    assert selected.remotes.keys() == {"payments", "refunds", "heartbeats"}
    assert selected.unnamed == {MOVED: ["orders"]}
    for name in ("old--orders", "primary--orders"):  # the two ways out
        named = policy(**changes, topic_settings={"orders": own_name(name)})
        assert select_topics(named, found, lambda: held).remotes["orders"] == name
    template = policy(remote_topic="{source}_{topic}", topic_settings={"x": own_name("y")})
    assert select_topics(template, ["orders"], lambda: held).remotes == {"orders": "primary_orders"}


CANARY = "mirror-canary.primary.internal"


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"replication_policy": "identity"},
        {"remote_topic": "{topic}.of.{source}"},
        {"remote_topic": "eu-{topic}"},
        OWN,
    ],
)
def test_the_canary_is_mirrored_under_its_own_name_whatever_the_filters_and_the_policy_say(names: Any) -> None:
    rules: dict[str, Any] = {"topics": ("orders",), "exclude": (".*",), **names}
    chosen, other = policy(**rules, canary=Canary(True, 10.0)), "mirror-canary.backup.internal"
    assert chosen.is_mirrored(CANARY) and chosen.remote_topic(CANARY) == CANARY and chosen.left_out(CANARY) is None
    assert not chosen.is_mirrored(other), "that of the opposite flow is never copied back"
    selected = select_topics(policy(**rules | {"topics": (".*",)}, canary=Canary(True, 1.0)), [CANARY, other], dict)
    assert selected.remotes == {CANARY: CANARY} and [other] in selected.left_out.values() and not selected.unnamed
    off = policy(**rules | {"topics": (".*",)})
    assert not off.is_mirrored(CANARY) and (off.left_out(CANARY) or "").startswith("internal")
    assert off.remote_topic(CANARY) == CANARY, "what was copied before stays its copy"


def test_a_canary_that_is_lost_needs_no_decision() -> None:
    one = flow(canary=Canary(True, 10.0))
    assert (one.of_topic(CANARY).on_data_loss, one.of_topic("orders").on_data_loss) == ("skip", "fail")
    own = {CANARY: TopicSettings(None, "latest", "fail", None, None)}
    changed = flow(canary=Canary(True, 10.0), topic_settings=own).of_topic(CANARY)
    assert (changed.on_data_loss, changed.start) == ("fail", "latest"), "but a person may want one"
