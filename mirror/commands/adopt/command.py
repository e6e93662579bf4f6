"""`mirror adopt`: finds MirrorMaker's positions, checks them against the records, and commits them as mirror's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TextIO

import click
from confluent_kafka.admin import OffsetSpec

from mirror.commands.adopt import stopping, topic_reader
from mirror.commands.adopt.committing import MOVED, commit
from mirror.commands.adopt.comparison import Comparer, Logs
from mirror.commands.adopt.selection import AdoptResult, Candidate, Known, select
from mirror.commands.status import read_status
from mirror.commands.text_table import Cell, table
from mirror.control.reported_positions import reported_positions
from mirror.errors import ConfigError, MirrorError
from mirror.groups.selected import selected
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Topic
from mirror.naming import ReplicationPolicy
from mirror.records.undecided import Undecided
from mirror.settings import Cluster, Flow
from mirror.target import connect_offsets
from mirror.target.connect_offsets import Sync, Written
from mirror.target.position_reader import PositionReader
from mirror.template import offset_syncs_topics
from mirror.text import plural


@dataclass(frozen=True, slots=True)
class Options:
    """What the command is told. `worker_group` and `offsets_topic` are None for MirrorMaker in dedicated mode."""

    connector: str
    worker_group: str | None
    offsets_topic: str | None
    tasks: int | None  # None: the target says which there are
    compare: int  # records of each partition
    quiet: float  # seconds
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Adoption:
    """The result for a flow."""

    flow: str
    dry_run: bool
    fenced: Sequence[str]  # transactional ids of MirrorMaker's tasks; with `dry_run`, those to fence
    ignored: int  # records of the offsets topic that could not be decoded
    results: Sequence[AdoptResult]

    @property
    def well(self) -> bool:
        """True if no partition was refused."""
        return not any(each.outcome == "refused" for each in self.results)

    def as_dict(self) -> dict[str, Any]:
        """The result as it is printed with --json."""
        counts = Counter(each.outcome.replace(" ", "_") for each in self.results)
        head = {"flow": self.flow, "dry_run": self.dry_run, "exactly_once": bool(self.fenced), "well": self.well}
        what = {"fenced": [] if self.dry_run else list(self.fenced), "ignored": self.ignored, "counts": counts}
        return {**head, **what, "partitions": [each.as_dict() for each in self.results]}


def adopt(flow: Flow, options: Options, progress: TextIO) -> Adoption:
    """Take the positions of a flow over, and show the progress on a terminal.

    Raises ConfigError if the offsets topic does not exist, MirrorError if the flow or MirrorMaker runs, ClusterAway.
    """
    if flow.active_active:
        raise ConfigError([f"{flow.name} has active_active: true, and MirrorMaker's copies lack the header it needs"])
    return _Command(flow, options, progress).run()


class _Command:
    """One run of the command."""

    def __init__(self, flow: Flow, options: Options, progress: TextIO) -> None:
        self._flow, self._options, self._progress = flow, options, progress
        self._source, self._target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
        self._topic = options.offsets_topic or f"mm2-offsets.{flow.source.alias}.internal"
        self._group = options.worker_group or f"{flow.source.alias}-mm2"

    def run(self) -> Adoption:
        flow, options = self._flow, self._options
        self._check()
        ids = stopping.task_ids(flow, self._group, options.connector, options.tasks)
        if not options.dry_run:
            if options.offsets_topic is None:  # the workers of a Connect cluster may have other connectors
                stopping.await_no_workers(self._target, self._group, options.quiet, self._say)
            stopping.fence_tasks(flow, ids.all, self._say)
        written = self._written()
        known = self._known(written, exactly_once=bool(ids.all))
        candidates, results = select(known)
        restless = set() if options.dry_run else self._restless(candidates, known, fenced=bool(ids.listed))
        results += [_refused(each, MOVED) for each in candidates if each.remote in restless]
        found = self._compare([each for each in candidates if each.remote not in restless], known)
        fitting = [each for each in found if each.outcome != "refused"]
        results += [each for each in found if each.outcome == "refused"]
        results += fitting if options.dry_run else self._commit(fitting, known)
        shown = sorted(results, key=lambda each: each.partition)
        return Adoption(flow.name, options.dry_run, ids.all, written.ignored, shown)

    def _restless(self, candidates: Sequence[Candidate], known: Known, fenced: bool) -> set[Partition]:
        """The remote partitions to which records come. There are none if tasks are fenced and the workers are gone."""
        if fenced and self._options.offsets_topic is None:
            return set()
        ends = {each.remote: known.ends[each.remote] for each in candidates}
        return stopping.moving(self._target, ends, self._options.quiet, self._say)

    def _say(self, text: str) -> None:
        click.echo(f"{self._flow.name}: {text}", file=self._progress)

    def _check(self) -> None:
        """Raise unless the flow stands still and the offsets topic is there."""
        state = read_status(self._flow)
        if state.state == "unknown":
            raise MirrorError(state.reason)
        if state.state == "running":
            raise MirrorError(f"{self._flow.name} runs: stop mirror before its positions are adopted")
        if self._topic not in self._target.partitions():
            topic = f"there is no topic {self._topic} on {self._flow.target.alias}"
            raise ConfigError([f"{topic}: with MirrorMaker on a Connect cluster, name its topic with --offsets-topic"])

    def _written(self) -> Written:
        records = topic_reader.read(self._flow.target, self._flow.group, self._topic)
        written = connect_offsets.positions(records, self._options.connector, self._flow.source.alias)
        self._say(f"{self._topic} has the positions of {plural(len(written.positions), 'partition')}")
        return written

    def _known(self, written: Written, exactly_once: bool) -> Known:
        flow, here = self._flow, self._source.partitions()
        remotes = selected(flow, here).remotes
        partitions = [Partition(name, number) for name in remotes for number in range(here[name])]
        remote = {each: Partition(remotes[each.topic], each.partition) for each in partitions}
        there = self._target.partitions()
        existing = frozenset(each for each in remote.values() if each.partition < there.get(each.topic, 0))
        with closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions:
            hints = positions.hints(existing)
        ends = stopping.stable_ends if self._options.dry_run else stopping.final_ends
        return Known(
            remote,
            written.positions,
            self._syncs(there),
            {each: hints.get(remote[each]) for each in partitions},
            self._target.offsets(dict.fromkeys(existing, OffsetSpec.earliest())),
            ends(self._target, existing),
            existing,
            exactly_once,
        )

    def _syncs(self, there: Mapping[str, int]) -> dict[Partition, Sync]:
        """MirrorMaker's newest offset syncs, which are on the source unless it is configured otherwise."""
        flow, found = self._flow, dict[Partition, Sync]()
        here = self._source.partitions()
        for cluster, topic in sync_places(flow):
            if topic in (there if cluster is flow.target else here):
                newer = connect_offsets.syncs(topic_reader.read(cluster, flow.group, topic))
                found |= {p: sync for p, sync in newer.items() if p not in found or found[p].downstream <= sync[1]}
        return found

    def _compare(self, candidates: Sequence[Candidate], known: Known) -> list[AdoptResult]:
        if not candidates:
            return []
        comparer = Comparer.of(self._flow, self._options.compare)
        logs = self._logs(candidates, known)
        label = f"{self._flow.name}: comparing "
        with click.progressbar(candidates, label=label, file=self._progress, show_pos=True) as each:
            return [self._compared(comparer, candidate, logs.get(candidate.partition)) for candidate in each]

    def _compared(self, comparer: Comparer, candidate: Candidate, logs: Logs | None) -> AdoptResult:
        if logs is None:
            return _refused(candidate, "the source gives no offsets of it")
        try:
            found = comparer.find_position(candidate, logs)
        except MirrorError as error:
            return _refused(candidate, str(error))
        if isinstance(found, Undecided):
            return _refused(candidate, f"{found.reason}; {self._way_out(candidate.partition)}")
        numbers = (candidate.recorded, found.position, found.compared)
        return AdoptResult(candidate.partition, candidate.remote, "would be adopted", "", *numbers)

    def _way_out(self, partition: Partition) -> str:
        where = f"--flow '{self._flow.name}' --topic {partition.topic} --partition {partition.partition}"
        return f"start mirror, which blocks the partition, and decide with mirror resume {where} --at OFFSET"

    def _logs(self, candidates: Sequence[Candidate], known: Known) -> dict[Partition, Logs]:
        ours = [each.partition for each in candidates]
        first = self._source.offsets(dict.fromkeys(ours, OffsetSpec.earliest()))
        stable = self._source.offsets(dict.fromkeys(ours, OffsetSpec.latest()))
        high = self._source.offsets(dict.fromkeys(ours, OffsetSpec.latest()), stable=False)
        return {
            each.partition: Logs(
                first[each.partition],
                stable[each.partition],
                high[each.partition],
                known.starts.get(each.remote, 0),
                known.ends[each.remote],
            )
            for each in candidates
            if each.partition in first.keys() & stable.keys() & high.keys()
        }

    def _commit(self, found: Sequence[AdoptResult], known: Known) -> list[AdoptResult]:
        if not found:
            return []
        flow = self._flow
        topics = self._topics({each.partition for each in found})
        wanted = {each.partition: topics[each.partition.topic] for each in found if each.partition.topic in topics}
        status = flow.status_topic in self._target.partitions()
        reported = reported_positions(flow, wanted, len(known.remote)) if status else {}
        known_topics = [each for each in found if each.partition.topic in topics]
        lost = [replace(each, outcome="refused", reason="its topic has no id now") for each in found]
        lost = [each for each in lost if each.partition.topic not in topics]
        with click.progressbar(
            length=len(found), label=f"{flow.name}: committing", file=self._progress, show_pos=True
        ) as bar:
            return [*lost, *commit(flow, known_topics, topics, reported, known.ends, lambda: bar.update(1))]

    def _topics(self, partitions: Collection[Partition]) -> dict[str, Topic]:
        """The topics of these partitions, with the ids of both sides."""
        policy = ReplicationPolicy.of(self._flow)
        names = sorted({each.topic for each in partitions})
        ids, theirs = self._source.topic_ids(names), self._target.topic_ids(map(policy.remote_topic, names))
        remote = {name: policy.remote_topic(name) for name in names}
        return {
            name: Topic(remote[name], ids[name], 0, 0, theirs[remote[name]])
            for name in names
            if name in ids and remote[name] in theirs
        }


def sync_places(flow: Flow) -> list[tuple[Cluster, str]]:
    """Where MirrorMaker's offset syncs of a flow may be: the clusters with the names of the topics."""
    separator = ReplicationPolicy.of(flow).separator
    return [
        (cluster, name)
        for cluster, other in ((flow.target, flow.source), (flow.source, flow.target))
        for name in offset_syncs_topics(other.alias, separator)
    ]


def _refused(candidate: Candidate, reason: str) -> AdoptResult:
    return AdoptResult(candidate.partition, candidate.remote, "refused", reason, candidate.recorded)


def shown(found: Adoption) -> str:
    """The result as text: a table of the partitions, and a verdict."""
    rows: list[list[Cell]] = [
        [str(each.partition), each.recorded, each.position, each.compared, each.outcome] for each in found.results
    ]
    headers = ("partition", "MirrorMaker's position", "mirror's position", "records compared", "outcome")
    lines = [found.flow, "", table(headers, rows)] if rows else [found.flow]
    reasons = [f"  {each.partition} {each.outcome}: {each.reason}" for each in found.results if each.reason]
    counts = Counter(each.outcome for each in found.results)
    verdict = ", ".join(f"{plural(number, 'partition')} {outcome}" for outcome, number in counts.most_common())
    ignored = [f"{plural(found.ignored, 'record')} of the offsets topic can't be decoded"] if found.ignored else []
    return "\n".join([*lines, "", *reasons, *ignored, verdict or "there is nothing to adopt"])
