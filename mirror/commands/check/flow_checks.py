"""What `mirror check` asks about one flow: its topics, permissions, limits, clocks, decisions and other flows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import KafkaException

from mirror.commands.check.beside_checks import beside_checks
from mirror.commands.check.canary import canary
from mirror.commands.check.findings import Check, CheckOutcome, Finding
from mirror.commands.check.inspection import Description, Inspector
from mirror.commands.check.limits import LimitChecks
from mirror.commands.check.permissions import (
    CHANGE_CONFIGS,
    COPY,
    GROW,
    POSITIONS,
    READ_CONFIGS,
    READ_SOURCE,
    words,
)
from mirror.commands.check.target import TargetChecks
from mirror.commands.plan.dry_run import dry_run
from mirror.control.newest_plan import newest_plan
from mirror.control.other_flows import OtherFlows
from mirror.errors import ClusterAway, FlowError, PartitionError
from mirror.groups.selected import selected
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.text import duration, plural
from mirror.unmatched_entries import matches_nothing

AHEAD = 5_000  # ms that a record's timestamp may be in the future
NAMES_MAX = 3  # names shown of a long list


class FlowChecks:
    """Checks one flow, after both of its clusters were reached."""

    def __init__(self, flow: Flow, inspectors: Mapping[str, tuple[Inspector, Description]]) -> None:
        self._flow = flow
        self._source, self._source_description = inspectors[flow.source.alias]
        self._target, self._target_description = inspectors[flow.target.alias]
        found = self._source.partitions()
        self._selection = selected(flow, found)
        self._remotes = self._selection.remotes
        self._topics = {name: found[name] for name in self._remotes}
        self._matches_nothing = list(matches_nothing(flow, found))
        self._existing = self._target.partitions()
        self._remote = set(self._remotes.values()) & self._existing.keys()

    def all(self) -> Iterator[Check]:
        """Run every check. If a cluster refuses a request, that is a warning."""
        yield self._clusters_differ()
        yield self._topics_found()
        for said, remedy in self._matches_nothing:
            yield self._check("topics", "WARNING", said, remedy)
        for reason, names in self._selection.unnamed.items():
            said = f"{plural(len(names), 'topic')} can't be mirrored: {some_of(names)}: {reason}"
            yield self._check("names of remote topics", "FAILED", said, "change the names, or leave the topics out")
        for reason, names in self._selection.left_out.items():
            yield self._check("topics left out", "OK", f"{plural(len(names), 'topic')}: {some_of(names)}: {reason}")
        target = TargetChecks(self._flow, self._target, self._target_description, self._remote)
        for what, checks in (
            ("permissions on the source", self._source_permissions),
            ("permissions on the target", self._target_permissions),
            ("timeouts and sizes", lambda: self._checks(self._limits().all())),
            ("timestamps", lambda: self._checks(target.timestamps())),
            ("safety of the target", lambda: self._checks(target.safety())),
            ("permissions beside the copying", self._beside),
            ("canary", lambda: self._checks(canary(self._flow, self._source, self._source_description))),
            ("clocks", self._clocks),
            ("decisions", self._decisions),
            ("other flows", self._other_flows),
        ):
            try:
                yield from checks()
            except (ClusterAway, FlowError, PartitionError) as error:
                yield self._check(what, "FAILED", str(error))
            except KafkaException as error:
                yield self._check(what, "WARNING", f"not known: {error.args[0].str()}", "check it by hand")
            except KeyError as error:  # brokers other than Apache's may describe only some of their settings
                yield self._check(what, "WARNING", f"not known: the broker does not give {error}", "check it by hand")

    def _check(self, what: str, outcome: CheckOutcome, said: str, remedy: str = "") -> Check:
        return Check(self._flow.name, what, outcome, said, remedy)

    def _checks(self, findings: Iterable[Finding]) -> Iterator[Check]:
        return (self._check(*finding) for finding in findings)

    def _clusters_differ(self) -> Check:
        if self._source_description.cluster_id == self._target_description.cluster_id:
            return self._check(
                "clusters", "FAILED", "source and target are the same cluster", "correct bootstrap.servers"
            )
        return self._check("clusters", "OK", "source and target are two clusters")

    def _topics_found(self) -> Check:
        if not self._topics:
            remedy = "correct topics and exclude, or allow Describe on them"
            return self._check(
                "topics", "WARNING", "none of the source's topics that mirror may see is mirrored", remedy
            )
        return self._check(
            "topics", "OK", f"{len(self._topics)} to mirror, {len(self._remote)} of them already on the target"
        )

    def _source_permissions(self) -> Iterator[Check]:
        allowed = self._source.topic_operations(self._topics)
        yield from self._lacking("permissions on the source", allowed, READ_SOURCE, "FAILED")
        named = "topic configurations on the source"
        yield from self._lacking(named, allowed, READ_CONFIGS, "WARNING")

    def _lacking(
        self,
        what: str,
        allowed: Mapping[str, Iterable[str]],
        needed: frozenset[str],
        outcome: CheckOutcome,
        kind: str = "topic",
    ) -> Iterator[Check]:
        lacking = {name: sorted(needed - set(has)) for name, has in allowed.items() if needed - set(has)}
        wanted = words(needed)
        if not lacking:
            if allowed:
                yield self._check(what, "OK", f"{wanted} on {plural(len(allowed), kind)}")
            return
        some = ", ".join(sorted(lacking)[:NAMES_MAX]) + (", ..." if len(lacking) > NAMES_MAX else "")
        said = f"{wanted} is not allowed on {plural(len(lacking), kind)}: {some}"
        yield self._check(what, outcome, said, f"allow {wanted} on them")

    def _target_permissions(self) -> Iterator[Check]:
        flow = self._flow
        own = self._existing.keys() & flow.own_topics
        topics = self._target.topic_operations(self._remote | own)
        remote = {name: has for name, has in topics.items() if name in self._remote}
        yield from self._lacking("permissions on the target", remote, COPY, "FAILED")
        yield from self._lacking("adding partitions on the target", remote, GROW, "WARNING")
        if flow.sync_topic_configs:
            named = "topic configurations on the target"
            yield from self._lacking(named, remote, CHANGE_CONFIGS, "WARNING")
        internal = {name: has for name, has in topics.items() if name in own}
        yield from self._lacking("mirror's own topics", internal, COPY, "FAILED")
        group = {flow.group: self._target.group_operations(flow.group)}
        yield from self._lacking("the position's group", group, POSITIONS, "FAILED", "group")
        missing = len(self._topics) - len(self._remote) + len(flow.own_topics) - len(own)
        if missing and "CREATE" not in self._target_description.operations:
            said = f"{plural(missing, 'topic')} to create, and Create is not allowed on the cluster"
            remedy = "allow Create on the cluster, or by a prefixed ACL on the topics, which this check can't see"
            yield self._check("creating topics", "WARNING", said, remedy)
        elif missing:
            yield self._check("creating topics", "OK", f"Create on the cluster, for {plural(missing, 'topic')}")
        if not flow.exactly_once:
            return
        if self._target.has_authorizer():
            said = "Kafka does not report permissions on transactional ids"
            remedy = f"make sure that Write and Describe are allowed on ids that begin with {flow.group}/"
            yield self._check("transactional ids", "WARNING", said, remedy)
        else:
            yield self._check("transactional ids", "OK", "the target has no authorizer")

    def _beside(self) -> Iterator[Check]:
        source = self._source, self._source_description
        return self._checks(beside_checks(self._flow, source, (self._target, self._target_description)))

    def _limits(self) -> LimitChecks:
        source = self._source, self._source_description
        return LimitChecks(self._flow, source, (self._target, self._target_description), self._remotes)

    def _decisions(self) -> Iterator[Check]:
        """Find partitions that would wait for a decision, because copying them could double or lose records."""
        blocked = dry_run(self._flow).blocked
        if blocked:
            first = blocked[0]
            said = f"{plural(len(blocked), 'partition')} would be blocked, e.g. {first.topic}-{first.partition}"
            yield self._check("decisions", "WARNING", f"{said}: {first.blocked}", "decide once the service runs")
        else:
            yield self._check("decisions", "OK", "no partition would wait for a decision")

    def _clocks(self) -> Iterator[Check]:
        """Find clocks that are ahead, by the timestamps of the newest records. Clocks that are slow can't be found."""
        now = time.time() * 1000
        ahead = {t: at - now for t, at in self._source.newest_timestamps(self._topics.items()) if at > now + AHEAD}
        if ahead:
            worst = max(ahead, key=lambda topic: ahead[topic])
            said = f"the newest record of {worst} is {duration(ahead[worst] / 1000)} in the future"
            remedy = (
                "set the clocks of its producers, of the brokers and of this machine by NTP, or latencies are wrong"
            )
            yield self._check("clocks", "WARNING", said, remedy)
        else:
            yield self._check("clocks", "OK", "no record is from the future (a slow clock can't be seen)")

    def _other_flows(self) -> Iterator[Check]:
        plan, _ = newest_plan(self._flow)
        found = OtherFlows(self._flow).look(self._remotes, plan)
        for note in found.refusals:
            yield self._check("other flows", "FAILED", *note)
        for note in found.warnings:
            yield self._check("other flows", "WARNING", *note)
        if not (found.refusals or found.warnings):
            yield self._check("other flows", "OK", "none copies in a cycle, or the same topics as this one")
