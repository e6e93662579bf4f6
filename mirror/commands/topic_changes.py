"""What a run would change of remote topics beside their records: configurations and ACLs, for `mirror plan`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

from mirror.errors import FlowError
from mirror.model import Topic
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.text import plural
from mirror.topics.acl_rules import UNNAMED
from mirror.topics.acl_sync import AclOutcome, AclStatus, AclSync, unnamed_principals
from mirror.topics.config_sync import ConfigSync, TopicConfig


def config_changes(flow: Flow, topics: Mapping[str, Topic], existing: Collection[str]) -> tuple[TopicConfig, ...]:
    """Those of the topics whose remote topic is among the `existing` ones, and has another configuration.

    Raises ClusterAway.
    """
    if not flow.sync_topic_configs:
        return ()
    there = {name: topic for name, topic in topics.items() if topic.remote in existing}
    return tuple(each for some in ConfigSync(flow).compare(there) for each in some if each.changes or each.reason)


def acl_changes(flow: Flow, topics: Mapping[str, Topic]) -> tuple[tuple[AclStatus, ...], list[str]]:
    """The ACLs of the topics that the target lacks or does not get as they are, and why they are not known.

    Raises ClusterAway.
    """
    if not flow.sync_acls:
        return (), []
    try:
        found = AclSync(flow).compare({name: topic.remote for name, topic in topics.items()})
    except FlowError as error:
        return (), [f"ACLs can't be copied: {error}"]
    return tuple(each for each in found if each.outcome is not AclOutcome.IN_STEP), []


def change_lines(configs: Iterable[TopicConfig], acls: Iterable[AclStatus]) -> Iterator[str]:
    """The changes, a line for each."""
    for each in configs:
        yield from (f"alter {each.remote}: {change}" for change in each.changes)
    for acl in acls:
        if acl.outcome is AclOutcome.MISSING:
            yield f"create ACL {acl.target}"


def obstacle_lines(configs: Iterable[TopicConfig], acls: Collection[AclStatus]) -> Iterator[str]:
    """What would stay different, a line for each reason."""
    for reason, remotes in _by_reason((each.reason, each.remote) for each in configs):
        yield f"configurations not in step, {plural(len(remotes), 'topic')}: {some_of(remotes)}: {reason}"
    for reason, names in _by_reason((each.reason, str(each.source)) for each in acls):
        yield f"not copied as on the source, {plural(len(names), 'ACL')}: {some_of(names)}: {reason}"
    if unnamed := unnamed_principals(acls):
        yield f"ACLs for {plural(len(unnamed), 'principal')}: {some_of(unnamed)}: {UNNAMED}"


def _by_reason(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    for reason, some in groupby(sorted(pair for pair in pairs if pair[0]), lambda pair: pair[0]):
        yield reason, [name for _, name in some]
