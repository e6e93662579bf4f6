"""`mirror hand-back`: fences mirror's own tasks, loads the positions, and writes them as MirrorMaker's."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TextIO

import click

from mirror.commands.adopt import stopping, topic_reader
from mirror.commands.hand_back import ending
from mirror.commands.hand_back.selection import HandBackResult, Known, needed, select
from mirror.commands.text_table import Cell, table
from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import ALL_REPORTS, StatusReader
from mirror.control.decisions import Incident
from mirror.control.flow_leader import FlowLeader
from mirror.control.plan import Plan
from mirror.control.reported_positions import newest_positions, of_this_copy
from mirror.control.reports import Report
from mirror.errors import ConfigError, MirrorError, Superseded
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.own_topic_producer import BY_KEY
from mirror.kafka.topic_creation import create
from mirror.model import Partition, Position, remote_partitions
from mirror.service.own_topics import own_topic
from mirror.settings import Flow
from mirror.target import connect_offsets
from mirror.target.connect_offsets import Recorded, Written
from mirror.text import plural

NOT_READ_BACK = "it was written, but can't be read back: does somebody else write to the topic?"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command is told."""

    worker_group: str | None  # None: <source>-mm2, as MirrorMaker in dedicated mode has it if it is not configured
    tasks: int | None  # of MirrorMaker; None: the target says which there are
    quiet: float  # seconds
    overwrite: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class HandBack:
    """The result for a flow."""

    flow: str
    topic: str  # Connect's offsets topic
    dry_run: bool
    needed: Sequence[str]  # properties that MirrorMaker needs
    results: Sequence[HandBackResult]

    @property
    def well(self) -> bool:
        """True if no partition was refused."""
        return not any(each.outcome == "refused" for each in self.results)

    def as_dict(self) -> dict[str, Any]:
        """The result as it is printed with --json."""
        counts = Counter(each.outcome.replace(" ", "_") for each in self.results)
        head = {"flow": self.flow, "topic": self.topic, "dry_run": self.dry_run, "well": self.well}
        found = [each.as_dict() for each in self.results]
        return {**head, "needed": list(self.needed), "counts": counts, "partitions": found}


def hand_back(flow: Flow, options: Options, progress: TextIO) -> HandBack:
    """Hand the positions of a flow back, and show the progress on a terminal.

    Raises ConfigError if mirror has never run, or a Connect cluster's topic does not exist; MirrorError if the flow or
    MirrorMaker runs; ClusterAway.
    """
    if flow.active_active:
        raise ConfigError([f"{flow.name} has active_active: true, and MirrorMaker would send its records back"])
    return _Command(flow, options, progress).run()


class _Command:
    """One run of the command."""

    def __init__(self, flow: Flow, options: Options, progress: TextIO) -> None:
        self._flow, self._options, self._progress = flow, options, progress
        self._target = ClusterAdmin(flow.target)
        self._topic = flow.connect_offsets_topic
        self._connector = flow.mirrormaker_offsets.connector
        self._group = options.worker_group or f"{flow.source.alias}-mm2"
        self._dedicated = flow.mirrormaker_offsets.topic is None  # else a Connect cluster's topic is named
        self._has_fenced = False  # tasks of MirrorMaker that exist; if not, it may run without exactly-once

    def run(self) -> HandBack:
        flow, options = self._flow, self._options
        plan = self._plan()
        if not options.dry_run:
            self._end_mirrormaker()
            ending.await_silence(flow, plan, self._say)
            flow_leader = FlowLeader(flow, uuid.uuid4().hex)
            plan = flow_leader.stop_all_tasks() or plan
        known = self._known(plan)
        results = select(flow, known, options.overwrite)
        if not options.dry_run:
            results = self._write(results)
            self._check_stopped(flow_leader, " but not marked")
            results = self._give_up(results, known)
            if not flow.exactly_once:  # nobody is fenced, so a mark may stand where a service has copied on
                self._check_stopped(flow_leader)
        shown = sorted(results, key=lambda each: each.partition)
        return HandBack(flow.name, self._topic, options.dry_run, needed(flow), shown)

    def _check_stopped(self, flow_leader: FlowLeader, how: str = "") -> None:
        """Raises MirrorError if a service was started since positions were written. `how` says more of these."""
        try:
            flow_leader.check_still_leading()
        except Superseded as error:
            raise MirrorError(
                f"flow {self._flow.name}: a service was started meanwhile; positions were written to "
                f"{self._topic}{how}: stop it and hand back again before MirrorMaker starts"
            ) from error

    def _say(self, text: str) -> None:
        click.echo(f"{self._flow.name}: {text}", file=self._progress)

    def _plan(self) -> Plan:
        """The newest plan. Raises ConfigError if there is none, or if MirrorMaker's topic is named but not there."""
        flow, there = self._flow, self._target.partitions()
        if not {flow.control_topic, flow.status_topic} <= there.keys():
            reason = f"{flow.target.alias} has no {flow.control_topic}"
            raise ConfigError([f"{flow.name} has nothing to hand back: {reason}"])
        if self._topic not in there and flow.mirrormaker_offsets.topic is not None:
            raise ConfigError([f"there is no topic {self._topic} on {flow.target.alias}"])
        with closing(ControlReader(flow)) as control:
            control.read_to_end()
            self._orders = control.orders
        if control.plan is None:
            raise ConfigError([f"{flow.name} has nothing to hand back: no service has written a plan yet"])
        return control.plan

    def _end_mirrormaker(self) -> None:
        """Raises MirrorError if MirrorMaker runs, and fences what is left of its tasks."""
        ids = stopping.task_ids(self._flow, self._group, self._connector, self._options.tasks)
        if self._dedicated:  # the workers of a Connect cluster may have other connectors
            stopping.await_no_workers(self._target, self._group, self._options.quiet, self._say)
        stopping.fence_tasks(self._flow, ids.all, self._say)
        self._has_fenced = bool(ids.listed)

    def _known(self, plan: Plan) -> Known:
        there = self._target.partitions()
        every = remote_partitions(plan.known)  # the retired ones, too
        remote_topics = {each: at.topic for each, at in every.items()}
        reported, incidents = self._reported(remote_topics)
        remotes = {each: at for each, at in every.items() if at.partition < there.get(at.topic, 0)}
        positions, problems = self._positions(remotes)
        if not self._options.dry_run:
            self._refuse_moving(positions, problems, remotes)
        problems |= {each: f"the target has no {every[each]}" for each in every.keys() - remotes.keys()}
        recorded = self._recorded().positions
        return Known(plan, positions, problems, reported, incidents, recorded, self._orders)

    def _positions(
        self, remotes: Mapping[Partition, Partition]
    ) -> tuple[dict[Partition, Position | None], dict[Partition, str]]:
        """The positions, and the reasons why others could not be read. Fences mirror's tasks, but not in a dry run."""
        if self._options.dry_run:
            return ending.hints(self._flow, remotes)
        label = f"{self._flow.name}: loading positions"
        with click.progressbar(length=len(remotes), label=label, file=self._progress, show_pos=True) as bar:
            return ending.load(self._flow, remotes, lambda: bar.update(1))

    def _reported(
        self, remote_topics: Mapping[Partition, str]
    ) -> tuple[dict[Partition, Position], dict[Partition, Incident]]:
        """The newest position and the last incident of each partition, from all that the status topic still has."""
        last: dict[Partition, Incident | None] = {}

        def noted(reports: Iterable[Report]) -> Iterator[Report]:
            for report in of_this_copy(reports, self._flow.group, remote_topics):
                last[report.partition] = report.incident
                yield report

        positions = newest_positions(noted(self._reports()))
        return positions, {each: incident for each, incident in last.items() if incident is not None}

    def _reports(self) -> Iterator[Report]:
        """All that the status topic still has, the oldest first. There may be millions."""
        with closing(StatusReader(self._flow, back=ALL_REPORTS)) as reader:
            yield from (dated.report for dated in reader.history())

    def _refuse_moving(
        self,
        positions: Mapping[Partition, Position | None],
        problems: dict[Partition, str],
        remotes: Mapping[Partition, Partition],
    ) -> None:
        """Add to `problems` the partitions to which records still come.

        It watches nothing if both sides have certainly stopped: the tasks of both were fenced, and the group of
        MirrorMaker's workers has no members. Where none of MirrorMaker's was fenced, its group may have another name.
        """
        fenced = self._flow.exactly_once and self._dedicated and self._has_fenced
        watched = {} if fenced else {at: each for each, at in remotes.items() if positions.get(each) is not None}
        ends = stopping.ends(self._target, watched)
        for at in stopping.moving(self._target, ends, self._options.quiet, self._say):
            problems[watched[at]] = "records still come to the copy: mirror, MirrorMaker or somebody else writes to it"

    def _recorded(self) -> Written:
        if self._topic not in self._target.partitions():
            return Written({}, 0)
        records = topic_reader.read(self._flow.target, self._flow.group, self._topic)
        return connect_offsets.positions(records, self._connector, self._flow.source.alias)

    def _write(self, results: Sequence[HandBackResult]) -> list[HandBackResult]:
        """Write what can be handed back, read it back, and say what has become of each partition."""
        wanted = {each.partition: each.position or 0 for each in results if each.outcome == "would be handed back"}
        self._say(f"writing {plural(len(wanted), 'position')} to {self._topic}")
        refused = create(self._target, [own_topic(self._flow, self._topic)])[0]
        if refused:
            raise MirrorError(f"{self._topic} can't be created: {refused[self._topic].str()}")
        key = {each: connect_offsets.key(self._connector, self._flow.source.alias, each) for each in wanted}
        with closing(OwnTopicWriter(self._flow.target, self._topic, BY_KEY)) as writer:
            writer.write({key[each]: connect_offsets.value(offset) for each, offset in wanted.items()})
        written = self._recorded().positions
        return [
            each if each.partition not in wanted else _read_back(each, written.get(each.partition)) for each in results
        ]

    def _give_up(self, results: Sequence[HandBackResult], known: Known) -> list[HandBackResult]:
        """Mark mirror's positions as handed back, and say what has become of each partition then."""
        count = sum(each.outcome == "handed back" for each in results)
        label = f"{self._flow.name}: marking positions"
        with click.progressbar(length=count, label=label, file=self._progress, show_pos=True) as bar:
            return ending.give_up(self._flow, results, known, lambda: bar.update(1))


def _read_back(result: HandBackResult, written: Recorded | None) -> HandBackResult:
    """The result after what was written has been read back."""
    if written is None and not result.position:
        return replace(result, outcome="handed back")
    if written is None or written.position != result.position:
        return replace(result, outcome="refused", reason=(written.problem if written else "") or NOT_READ_BACK)
    return replace(result, outcome="handed back")


def shown(found: HandBack) -> str:
    """The result as text: a table of the partitions, a verdict, and what MirrorMaker needs."""
    rows: list[list[Cell]] = [
        [str(each.partition), each.recorded, each.position, each.outcome] for each in found.results
    ]
    headers = ("partition", "MirrorMaker's position", "mirror's position", "outcome")
    lines = [found.flow, "", table(headers, rows)] if rows else [found.flow]
    reasons = [f"  {each.partition} {each.outcome}: {each.reason}" for each in found.results if each.reason]
    counts = Counter(each.outcome for each in found.results)
    verdict = ", ".join(f"{plural(number, 'partition')} {outcome}" for outcome, number in counts.most_common())
    properties = [f"  {line}" for line in found.needed]
    needs = ["", "To go on as mirror would, MirrorMaker needs these properties:", *properties]
    return "\n".join([*lines, "", *reasons, verdict or "there is nothing to hand back", *needs])
