"""What mirror needs to be allowed, and the commands that allow it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.commands.check.beside_checks import beside_checks, finding
from mirror.commands.check.inspection import Description
from mirror.commands.check.permissions import (
    CONTROL_TOPICS,
    Kind,
    Need,
    beside,
    commands,
    group_back,
    needs,
    script,
    words,
)
from mirror.commands.check.purposes import adopting, handing_back, operating
from mirror.groups.flow_back import FlowBack, FlowsBack
from mirror.settings import Canary, Cluster, Flow, Groups, Heartbeats
from tests.harness.certificates import self_signed
from tests.unit.test_naming import flow

REMOTES = {"orders": "primary.orders", "clicks": "primary.clicks"}
BY_PASSWORD = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "us"}
BY_CERTIFICATE = {"security.protocol": "SSL", "ssl.certificate.location": "us.pem"}


def settings(enabled: bool) -> Flow:
    """A flow with all that needs permissions of its own, or none of it."""
    return flow(
        source=Cluster("primary", {"bootstrap.servers": "p:9092"}, {}, {}),
        target=Cluster("backup", {"bootstrap.servers": "b:9092", "sasl.username": "it's"}, {}, {}),
        groups=Groups(sync=enabled, checkpoints=enabled, include=(".*",), exclude=(), interval=60.0),
        heartbeats=Heartbeats(enabled, 1.0),
        canary=Canary(enabled, 1.0),
        sync_acls=enabled,
        sync_topic_configs=enabled,
        exactly_once=enabled,
    )


def found(enabled: bool, remotes: dict[str, str] = REMOTES) -> set[tuple[str, str, str, str]]:
    """Cluster, kind, names and operations of each need."""
    some = needs(settings(enabled), remotes, ["billing"])
    return {(n.cluster.alias, n.kind, ",".join(n.names), words(n.operations)) for n in some}


def test_what_is_switched_off_needs_nothing() -> None:
    one, other = found(True), found(False)
    assert one - other == {
        ("backup", "cluster", "", "Alter, Describe"),
        ("backup", "group", "billing", "Read"),
        ("backup", "topic", "primary.", "AlterConfigs, DescribeConfigs"),
        ("backup", "transactional-id", f"{settings(True).group}/", "Describe, Write"),
        ("primary", "cluster", "", "Describe"),
        ("primary", "group", "billing", "Describe"),
        ("primary", "topic", "heartbeats", READ_AND_WRITE),
        ("primary", "topic", "mirror-canary.primary.internal", READ_AND_WRITE),
    }
    assert ("primary", "topic", "clicks,orders", "Describe, Read") in other
    assert ("backup", "topic", "primary.", "Alter, Create, Describe, Read, Write") in other
    assert not [each for each in other if each[0] == "primary" and "Write" in each[3]], "the source is only read"


@pytest.mark.parametrize(
    ("login", "producer", "sync_acls", "warned"),
    [
        (BY_PASSWORD, {}, True, False),
        (BY_PASSWORD, {"sasl.username": "writer"}, True, False),
        (BY_PASSWORD, BY_CERTIFICATE, True, True),  # who writes is not known
        (BY_CERTIFICATE, {}, True, True),
        (BY_CERTIFICATE, {}, False, False),
    ],
)
def test_acl_sync_that_does_not_know_mirrors_own_user(
    login: dict[str, str], producer: dict[str, str], sync_acls: bool, warned: bool
) -> None:
    one = replace(settings(False), target=Cluster("backup", login, {}, producer), sync_acls=sync_acls)
    everything = Description("id", (), (), frozenset({"DESCRIBE", "ALTER"}))
    inspector: Any = SimpleNamespace()
    said = list(beside_checks(one, (inspector, everything), (inspector, everything)))
    assert [each.said for each in said if each.outcome != "OK"] == (
        [
            "mirror's user on backup is not known, because it does not log in with sasl.username: "
            "a DENY for this user would be copied, and could lock mirror out"
        ]
        if warned
        else []
    )


@pytest.mark.parametrize("syncs", [True, False])
def test_with_active_active_the_source_tells_of_the_flow_back(syncs: bool) -> None:
    one = replace(settings(syncs), active_active=True, replication_policy="identity")
    plain = list(needs(replace(one, active_active=False), REMOTES, ["billing"]))
    more = [each for each in needs(one, REMOTES, ["billing"], ("theirs",)) if each not in plain]
    of_groups = [("topic", "mirror-offset-map.", "Describe, Read", True), ("group", "theirs", "Describe", False)]
    said = [(n.kind, ",".join(n.names), words(n.operations), n.prefixed) for n in more]
    assert said == [("topic", "mirror-control.", "Describe, Read", True), *(of_groups if syncs else [])]
    assert {each.cluster.alias for each in more} == {"primary"} and not any(each.required for each in more)


def test_the_groups_of_all_flows_back_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several may share the topics. Before one has run, nobody knows its group, which is then the default one."""
    one = replace(settings(True), active_active=True)
    backs = [FlowBack(replace(one, group=name), frozenset({name})) for name in ("one", "two", "one")]
    monkeypatch.setattr(FlowsBack, "find", lambda _: backs)
    assert group_back(one) == ("one", "two")
    backs.clear()
    assert group_back(one) == ("mirror-backup-primary",)


@pytest.mark.parametrize(
    ("topics", "outcome", "said"),
    [
        ({"mirror-control.x.internal": {"DESCRIBE", "READ"}}, "OK", "Describe, Read on topics that begin with"),
        (
            {"mirror-control.x.internal": {"DESCRIBE", "READ"}, "mirror-control.y.internal": {"DESCRIBE"}},
            "WARNING",
            "Read is not allowed on topics that begin with mirror-control.",
        ),
        ({"orders": {"DESCRIBE"}}, "WARNING", "primary does not show topics that begin with mirror-control."),
    ],
)
def test_each_topic_with_the_beginning_has_to_be_allowed(topics: dict[str, set[str]], outcome: str, said: str) -> None:
    """Create is not asked for, because the flow back creates these topics."""
    (need,) = (n for n in beside(replace(settings(False), active_active=True), [], ()) if n.names == (CONTROL_TOPICS,))
    cluster: Any = SimpleNamespace(
        partitions=lambda: dict.fromkeys(topics, 1), topic_operations=lambda names: {n: topics[n] for n in names}
    )
    found = finding(need, cluster, Description("id", (), (), frozenset()))
    assert (found.outcome, found.said.startswith(said)) == (outcome, True) and "Create" not in found.said


def test_control_topics_of_other_flows_are_read_but_not_needed() -> None:
    """mirror finds cycles there that other configurations make."""
    (need,) = (n for n in needs(settings(False), REMOTES, []) if n.names == (CONTROL_TOPICS,))
    assert (need.cluster.alias, words(need.operations)) == ("primary", "Describe, Read")
    assert need.prefixed and not need.required


def test_a_certificate_names_the_user(tmp_path: Path) -> None:
    shown = str(self_signed(tmp_path, "mirror").certificate)
    login = {"bootstrap.servers": "b:9092", "security.protocol": "SSL", "ssl.certificate.location": shown}
    need = Need(Cluster("backup", login, {}, {}), Kind.CLUSTER, (), frozenset({"READ"}), "why")
    (command,) = commands(need)
    assert "--allow-principal User:CN=mirror --operation" in command


def test_a_person_needs_no_more_than_the_topics_of_orders_and_reports() -> None:
    one = settings(True)
    assert {(n.cluster.alias, str(n.kind), n.names, words(n.operations)) for n in operating(one, ("orders",))} == {
        ("backup", "topic", (one.control_topic, one.status_topic), "Describe, Read"),
        ("backup", "topic", one.own_topics, "Describe"),
        ("backup", "topic", (one.control_topic,), "Write"),
        ("primary", "topic", ("orders",), "Describe"),
    }


@pytest.mark.parametrize(
    ("of", "more"),
    [
        (
            adopting,
            {
                ("backup", "topic", "mm2-offsets.primary.internal", "Describe, Read"),
                ("primary", "topic", "mm2-offset-syncs.backup.internal", "Describe, Read"),
            },
        ),
        (handing_back, {("backup", "topic", "mm2-offsets.primary.internal", "Create, Describe, Read, Write")}),
    ],
)
def test_commands_for_mirrormaker_end_its_tasks(
    of: Callable[[Flow], Iterator[Need]], more: set[tuple[str, str, str, str]]
) -> None:
    asked = {(n.cluster.alias, str(n.kind), ",".join(n.names), words(n.operations)) for n in of(settings(True))}
    assert asked == more | {
        ("backup", "group", "primary-mm2", "Describe"),
        ("backup", "transactional-id", "primary-mm2-", "Describe, Write"),
    }


READ_AND_WRITE = "Create, Describe, Read, Write"


def test_remote_topics_without_the_sources_name_are_named_one_by_one() -> None:
    of_names = found(True, {"orders": "orders", "clicks": "primary.clicks"})
    assert ("backup", "topic", "orders,primary.clicks", "Alter, Create, Describe, Read, Write") in of_names
    assert not [each for each in of_names if each[2] == "primary."], "a prefix would not be enough"


def test_the_canarys_topic_does_not_end_the_prefix() -> None:
    canary = settings(True).canary_topic
    with_canary = found(True, {**REMOTES, canary: canary})
    assert ("backup", "topic", "primary.", "Alter, Create, Describe, Read, Write") in with_canary


def test_a_command_can_be_pasted_into_a_shell() -> None:
    need = Need(settings(True).target, Kind.TOPIC, ("a b",), frozenset({"READ", "ALTER_CONFIGS"}), "why", prefixed=True)
    (command,) = commands(need)
    assert shlex.split(command) == [
        *("kafka-acls.sh", "--bootstrap-server", "b:9092", "--add", "--allow-principal", "User:it's"),
        *("--operation", "AlterConfigs", "--operation", "Read", "--topic", "a b"),
        *("--resource-pattern-type", "prefixed"),
    ]
    many = replace(need, names=tuple(f"t{n}" for n in range(101)))
    assert [command.count("--topic") for command in commands(many)] == [100, 1]


def test_each_command_has_its_reason() -> None:
    one = settings(True)
    lines = script([(one, list(needs(one, REMOTES, ["billing"])))]).splitlines()
    assert f"# {one.name}" in lines and "# backup, needed: exactly_once: transactions" in lines
    assert all(line.startswith(("#", "kafka-acls.sh ")) or not line for line in lines)
    assert [line for line in lines if line.endswith("--add --allow-principal User:NAME --operation Describe --cluster")]


def test_a_group_whose_name_means_all_groups_is_left_out() -> None:
    """Any client may make such a group, and would give mirror's user access to all of them."""
    one = settings(True)
    found = list(needs(one, REMOTES, ["*", "billing"]))
    given = [shlex.split(line) for need in found for line in commands(need)]
    assert not [line for line in given if "*" in line] and [line for line in given if "billing" in line]
    lines = script([(one, found)]).splitlines()
    assert lines.count("# left out: the group *, because to Kafka this name means all of them") == 2


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nrm -r x"])
def test_a_name_that_steers_the_terminal_is_not_in_the_script(name: str) -> None:
    one = settings(True)
    found = list(needs(one, REMOTES, ["billing", name]))
    lines = script([(one, found)]).splitlines()
    assert name.splitlines()[-1] not in "\n".join(lines) and any("--json has this command" in line for line in lines)
    assert all(line.startswith(("#", "kafka-acls.sh ")) or not line for line in lines)
    assert any(name in shlex.split(line) for need in found for line in commands(need))
