"""Finds conflicts between flows, which no single flow shows."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import combinations

from mirror.config.flow_model import EndsModel, FlowModel
from mirror.config.located_yaml import Problem
from mirror.naming import LITERAL, ReplicationPolicy
from mirror.settings import NO_TRANSFORM

PASSES = 3  # times that a topic passes one flow until it counts as a cycle: in round two its name has every alias
PATHS_MAX = 1_000  # paths that are followed, short ones first; a full mesh of many clusters has more


def flow_problems(
    ends: Mapping[int, EndsModel],
    flows: Mapping[int, FlowModel],
    servers: Mapping[str, Set[str]],
    named: Callable[[int], str],
) -> Iterator[Problem]:
    """Find flows that don't go together. `ends` and `flows` have what is valid, by index; `servers` is by alias.

    `named` says what messages call a flow.
    """
    clusters = _clusters(servers)
    yield from _end_problems(ends, clusters, named)
    yield from _never_copied(flows)
    yield from _two_names(flows)
    yield from _topic_settings(flows)
    yield from _active_active(flows)
    for index, flow in flows.items():
        if flow.groups.sync and not flow.exactly_once:
            text = "offsets can only be translated with exactly_once: true; set that, or sync: false"
            yield Problem(("flows", index, "groups", "sync"), text)
    edges = {number: _Edge(f, clusters) for number, f in flows.items() if clusters[f.source] != clusters[f.target]}
    for (first, one), (second, other) in combinations(edges.items(), 2):
        if topic := one.meets(other):
            text = f"{named(first)} copies {topic} from the same cluster to the same topic of the same target"
            yield Problem(("flows", second, "topics"), text)
        elif remote := one.shares(other):
            text = f"{named(first)} writes to {remote} of the same target, too; only one flow may write to a topic"
            yield Problem(("flows", second, "topics"), text)
    yield from _undoing(edges, flows, named)
    for last in edges:
        if cycle := _cycle(edges, last, lambda path: all(flows[number].active_active for number in path)):
            path, name, back = cycle
            others = ", ".join(map(named, path))
            text = (
                f"here and in {others} records would go round for ever: {name} would come back as {back}; use default "
                "in all of them, with one separator, or one template with {source}, or lists of topic names that have "
                "none in common, or active_active: true in all of them"
            )
            key = "remote_topic" if flows[last].remote_topic else "replication_policy"
            yield Problem(("flows", last, key), text)


def _end_problems(
    ends: Mapping[int, EndsModel], clusters: Mapping[str, str], named: Callable[[int], str]
) -> Iterator[Problem]:
    for index, end in ends.items():
        here = ("flows", index, "target")
        if end.source == end.target:
            yield Problem(here, "a cluster can't be mirrored onto itself; source and target must differ")
        elif clusters[end.source] == clusters[end.target]:
            yield Problem(here, "source and target are the same cluster: they share a server in bootstrap.servers")
    for (first, a), (second, b) in combinations(ends.items(), 2):
        if (a.source, a.target) == (b.source, b.target):
            text = f"{named(first)} has the same source and target; a pair is allowed once, with all its topics"
            yield Problem(("flows", second), text)
        elif clusters[a.target] == clusters[b.target] and a.source == b.source:
            text = (
                f"{named(first)} has the same source, and its target {a.target} is the same cluster: they share a "
                "server in bootstrap.servers; a pair is allowed once, with all its topics"
            )
            yield Problem(("flows", second, "target"), text)
        elif (clusters[a.target], a.position_group) == (clusters[b.target], b.position_group):
            text = f"{named(first)} has the same group on the same target; each flow needs its own"
            yield Problem(("flows", second, "group"), text)


def _never_copied(flows: Mapping[int, FlowModel]) -> Iterator[Problem]:
    """Find names in `topics` that are never copied. What expressions match is only known on the source."""
    for index, flow in flows.items():
        policy = ReplicationPolicy(flow, flow.source, flow.target)
        for place, name in enumerate(flow.topics):
            if not LITERAL.fullmatch(name):
                continue
            reason = policy.left_out(name)
            if reason is None and not policy.has_own_name(name):
                reason = policy.name_problem(name)
            if reason is not None:
                text = f'"{name:.60}" is never copied: {reason}; take it out of topics, or change what leaves it out'
                yield Problem(("flows", index, "topics", place), text)


def _two_names(flows: Mapping[int, FlowModel]) -> Iterator[Problem]:
    """Find flows that name their remote topics in two ways, and templates that give no topic a name of its own."""
    for index, flow in flows.items():
        here = ("flows", index, "remote_topic")
        if flow.remote_topic is None:
            continue
        if flow.replication_policy != "default":
            text = f"remote topics can't be named by this and by replication_policy: {flow.replication_policy}, too"
            yield Problem(here, f"{text}; leave one of the two out")
            continue
        policy = ReplicationPolicy(flow, flow.source, flow.target)
        if problem := policy.name_problem("topic"):
            yield Problem(here, f"no topic can be named like this: {problem}")


def _active_active(flows: Mapping[int, FlowModel]) -> Iterator[Problem]:
    """Find what does not go together with active_active: decision 0007 says why."""
    for index, flow in flows.items():
        if not flow.active_active:
            continue
        here = ("flows", index)
        if flow.replication_policy != "identity":
            text = "the names have to be the same on both sides: set replication_policy: identity, no other one"
            yield Problem((*here, "active_active"), text)
        if flow.mirrormaker_offsets.enabled:
            text = "MirrorMaker can't go on after a flow with active_active: true, because it would send records back"
            yield Problem((*here, "mirrormaker_offsets", "enabled"), f"{text}; set enabled: false")
        text = "a transform could take away the header that keeps records from coming back; remove it, or active_active"
        if flow.transform is not None:
            yield Problem((*here, "transform"), text)
        for topic, own in flow.topic_settings.items():
            if own.transform not in (None, NO_TRANSFORM):
                yield Problem((*here, "topic_settings", topic, "transform"), text)


def _undoing(
    edges: Mapping[int, _Edge], flows: Mapping[int, FlowModel], named: Callable[[int], str]
) -> Iterator[Problem]:
    """Find flows with active_active that would undo each other's changes of topic configurations."""
    syncing = {n: edge for n, edge in edges.items() if flows[n].active_active and flows[n].sync_topic_configs}
    for last in syncing:
        if cycle := _cycle(syncing, last, lambda _: False):
            others = ", ".join(map(named, cycle[0]))
            text = f"here and in {others} topic configurations would be copied in a cycle; set it to false in one flow"
            yield Problem(("flows", last, "sync_topic_configs"), text)


def _topic_settings(flows: Mapping[int, FlowModel]) -> Iterator[Problem]:
    """Find settings of topics that are never copied, and remote topics that no topic, or none alone, can have."""
    for index, flow in flows.items():
        policy = ReplicationPolicy(flow, flow.source, flow.target)
        named: dict[str, str] = {}  # by remote topic: one of the topics that get it
        for name in filter(policy.is_mirrored, [*filter(LITERAL.fullmatch, flow.topics), *flow.topic_settings]):
            if not policy.has_own_name(name):
                named[policy.remote_topic(name)] = name
        for name, own in flow.topic_settings.items():
            here = ("flows", index, "topic_settings", name)
            if not policy.is_chosen(name):
                reason = policy.left_out(name) or "nothing in topics matches it"
                yield Problem(here, f'"{name:.60}" is never copied: {reason}')
            elif own.remote_topic is None:
                continue
            elif fixed := policy.fixed_name(name):
                yield Problem((*here, "remote_topic"), f"{fixed}; take this out")
            elif problem := policy.name_problem(name):
                yield Problem((*here, "remote_topic"), f"{name} can't be copied: {problem}")
            elif (other := named.setdefault(own.remote_topic, name)) != name:
                text = f"{other} has the remote topic {own.remote_topic}, too; give each topic another one"
                yield Problem((*here, "remote_topic"), text)


def _clusters(servers: Mapping[str, Set[str]]) -> dict[str, str]:
    """For each alias the first alias of the same cluster: both share a server."""
    first: dict[str, str] = {}
    for alias, own in servers.items():
        first[alias] = next((first[other] for other in first if servers[other] & own), alias)
    return first


class _Edge:
    """A flow as an edge between two clusters, with sample names of topics."""

    def __init__(self, flow: FlowModel, clusters: Mapping[str, str]) -> None:
        self.alias = flow.source
        self.source, self.target = clusters[flow.source], clusters[flow.target]
        self.policy = ReplicationPolicy(flow, flow.source, flow.target)
        # An expression without its special characters is, as a rule, a name that it matches.
        self.samples = sorted(
            {"topic", *flow.topic_settings, *(re.sub(r"[^a-zA-Z0-9._-]", "", each) for each in flow.topics)} - {""}
        )
        names = {*filter(LITERAL.fullmatch, flow.topics), *flow.topic_settings}
        self._remotes = set(map(self.policy.remote_topic, filter(self.policy.is_mirrored, names)))  # as far as known

    def meets(self, other: _Edge) -> str | None:
        """A topic that both flows would copy to the same remote topic, if they name one source by two aliases."""
        if self.alias == other.alias or (self.source, self.target) != (other.source, other.target):
            return None
        for name in sorted({*self.samples, *other.samples}):
            both = self.policy.is_mirrored(name) and other.policy.is_mirrored(name)
            if both and self.policy.remote_topic(name) == other.policy.remote_topic(name):
                return name
        return None

    def shares(self, other: _Edge) -> str | None:
        """A remote topic that both flows are told to write to, by the names of topics that they have."""
        return min(self._remotes & other._remotes, default=None) if self.target == other.target else None


def _cycle(
    edges: Mapping[int, _Edge], last: int, accepted: Callable[[Set[int]], bool]
) -> tuple[list[int], str, str] | None:
    """The flows before `last` through which a topic of its source comes back for ever; its name, before and after.

    Sample names are sent through the policies themselves. `accepted` says which flows may make a cycle.
    """
    leaving = defaultdict[str, list[int]](list)  # the flows up to the last one, by their source
    for number, edge in edges.items():
        if number <= last:
            leaving[edge.source].append(number)
    known: set[tuple[int, str, int, bool]] = set()
    for sample in edges[last].samples:
        open_ = deque([([last], [sample])])  # the path, and the topic's name before each of its flows
        while open_ and len(known) < PATHS_MAX:
            path, names = open_.popleft()
            here, passes = edges[path[-1]], path.count(last)
            if not here.policy.is_mirrored(names[-1]):
                continue
            if passes == PASSES:
                if accepted(set(path)):
                    continue
                again = path.index(last, 1)
                return sorted(set(path) - {last}), names[0], names[again]
            name = here.policy.remote_topic(names[-1])
            for number in leaving[here.target]:
                state = (number, name, passes, accepted({*path, number}))
                if state not in known:
                    known.add(state)
                    open_.append(([*path, number], [*names, name]))
    return None
