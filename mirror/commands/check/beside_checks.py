"""Tests what a flow leader may do beside the copying: groups, heartbeats, ACLs. What is lacking ends no copying."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mirror.commands.check.findings import Finding
from mirror.commands.check.inspection import Description, Inspector
from mirror.commands.check.permissions import Kind, Need, beside, group_back, words
from mirror.groups.source_groups import taking_part
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.text import plural
from mirror.topics.acl_sync import own_users
from mirror.unmatched_entries import groups_match_nothing

GROUPS_MAX = 20  # that are asked for: each takes a request
Reached = tuple[Inspector, Description]


def beside_checks(flow: Flow, source: Reached, target: Reached) -> Iterator[Finding]:
    """One finding for each permission, and one if ACL sync does not know a user of ours.

    Raises ClusterAway, FlowError or KafkaException.
    """
    groups: list[str] = []
    if flow.makes_rounds:
        listed = source[0].groups()
        groups = taking_part(flow, listed)
        for said, remedy in groups_match_nothing(flow.groups, listed):
            yield Finding("consumer groups", "WARNING", said, remedy)
        if not groups and "DESCRIBE" not in source[1].operations:
            said = f"{flow.source.alias} shows no consumer group: Kafka hides those that mirror may not Describe"
            yield Finding("consumer groups", "WARNING", said, "allow Describe on the groups, if there are any")
    for need in beside(flow, groups, group_back(flow)):
        if need.names != (flow.canary_topic,):  # canary.py tests it
            yield finding(need, *(source if need.cluster is flow.source else target))
    if flow.sync_acls and "" in own_users(flow.target):
        yield _own_user_unknown(flow)


def _own_user_unknown(flow: Flow) -> Finding:
    source, target = flow.source.alias, flow.target.alias
    said = f"mirror's user on {target} is not known, because it does not log in with sasl.username"
    said += ": a DENY for this user would be copied, and could lock mirror out"
    return Finding("mirror's own user", "WARNING", said, f"make sure that no DENY on topics of {source} names it")


def finding(need: Need, inspector: Inspector, description: Description) -> Finding:
    """The finding that the cluster allows what is needed, or that it does not. Raises KafkaException."""
    setting = need.why.partition(":")[0]
    what, where = f"{setting} on {need.cluster.alias}", _where(need)
    if need.kind is Kind.CLUSTER:
        return _judged(what, need, need.operations - description.operations, where)
    if need.kind is Kind.GROUP:
        asked = need.names[:GROUPS_MAX]
        missing = {name: need.operations - inspector.group_operations(name) for name in asked}
        lacking = [name for name, some in missing.items() if some]
        about = f"{plural(len(lacking or asked), 'group')}: {some_of(lacking or asked)}"
        return _judged(what, need, frozenset().union(*missing.values()), about)
    (name,) = need.names
    topics = [each for each in inspector.partitions() if (each.startswith(name) if need.prefixed else each == name)]
    if topics:
        allowed = inspector.topic_operations(topics)
        lacking_there = (need.operations - {"CREATE"} - allowed.get(topic, frozenset()) for topic in topics)
        return _judged(what, need, frozenset().union(*lacking_there), where)
    creates = "CREATE" in need.operations
    if creates and "CREATE" in description.operations:
        return Finding(what, "OK", f"Create on the cluster, for {where}")
    said = f"{need.cluster.alias} does not show {where}" + (", and Create is not allowed on the cluster" * creates)
    return Finding(what, "WARNING", said, f"make sure that {words(need.operations)} are allowed on {where}")


def _where(need: Need) -> str:
    if need.kind is Kind.CLUSTER:
        return "the cluster"
    return f"topics that begin with {need.names[0]}" if need.prefixed else f"the topic {need.names[0]}"


def _judged(what: str, need: Need, lacking: Collection[str], where: str) -> Finding:
    if not lacking:
        return Finding(what, "OK", f"{words(need.operations)} on {where}")
    said = f"{words(lacking)} is not allowed on {where}"
    remedy = f"allow {words(lacking)} there ({need.why.partition(': ')[2]}); mirror check --acls prints the command"
    return Finding(what, "WARNING", said, remedy)
