"""Finds the topics that a flow mirrors, and creates and grows their remote topics on the target."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewPartitions, NewTopic

from mirror.control.decisions import Decision
from mirror.control.plan import Plan
from mirror.errors import FlowError
from mirror.kafka.client_errors import is_lasting
from mirror.kafka.cluster import NAMES, ClusterAdmin, Refusals, chunks
from mirror.kafka.topic_configs import TopicConfigAdmin
from mirror.kafka.topic_creation import create
from mirror.kafka.topic_ids import ConfirmedIds, KnownIds
from mirror.logs import OnChange
from mirror.model import BATCH_BYTES, Partition, Topic
from mirror.naming import ReplicationPolicy, some_of
from mirror.service.confirmed_topics import ConfirmedTopics
from mirror.service.own_topics import dispensable, own_topic
from mirror.settings import Flow
from mirror.status.coverage import Coverage, covered
from mirror.target.remote_topics import RemoteTopicsMonitor
from mirror.target.timestamps import TimestampCheck
from mirror.topic_selection import LeftOut, TopicSelection, select_topics
from mirror.topics.config_rules import Rules
from mirror.topics.creation import RemoteTopicCreator, Wanted
from mirror.unmatched_entries import matches_nothing, warning

log = logging.getLogger(__name__)

NEW_WITHIN, POLL_INTERVAL = 2.0, 0.1  # seconds until every broker knows a new topic, and between two requests


@dataclass(frozen=True, slots=True)
class Changes:
    """What has to change on the target, and what is there already."""

    mirrored: Mapping[str, int]  # topics of the source that the flow mirrors, with their partition counts
    replacing: Sequence[str]  # remote topics that replace timestamps: nothing is copied to them
    left_out: LeftOut
    unnamed: LeftOut  # topics whose remote topic can't have its name
    existing: Mapping[str, int]  # topics of the target, with their partition counts
    create: Wanted
    grow: Mapping[str, int]  # remote topics with the partition count they need
    internal: Sequence[str]  # mirror's own topics to create


class TopicMonitor:
    """Compares both clusters of a flow. Every method raises ClusterAway when one of them does not answer."""

    def __init__(self, flow: Flow, on_progress: Callable[[], object] = lambda: None) -> None:
        """A look at thousands of topics takes minutes. `on_progress` is called all along, and may raise to end it."""
        self._follow(flow)
        self._source = TopicConfigAdmin(flow.source, on_progress)
        self._target = ClusterAdmin(flow.target, on_progress)
        self._remote_topics = RemoteTopicsMonitor(flow, self._target)
        self.refused: Refusals = {}  # remote topics that could not be created or grown last time
        self.remote_ids: Mapping[str, str] = {}  # ids of all remote topics as last seen
        self.coverage: Coverage | None = None  # of the last look
        self.awaits_confirmation = False  # True after a change was seen that the next call has to confirm
        self.timestamps = TimestampCheck(flow, self._target)
        self.unnamed: LeftOut = {}  # topics that are not mirrored, because the remote topic can't have its name
        self._left_out: LeftOut = {}  # as last logged
        self._judged: Flow | None = None  # the settings whose entries were compared with the source's topics
        self._own_ids = KnownIds()
        self._source_ids = ConfirmedIds()
        self._confirmed = ConfirmedTopics()
        self._why_not = OnChange()

    def reconfigure(self, flow: Flow) -> None:
        """Follow other settings. What is known of the clusters' topics stays."""
        self._follow(flow)
        self.timestamps.reconfigure(flow)
        self._remote_topics.reconfigure(flow)

    def _follow(self, flow: Flow) -> None:
        self._flow = flow
        self._policy = ReplicationPolicy.of(flow)
        self._rules = Rules.of(flow)
        self._dispensable = dispensable(flow)

    def ensure_internal_topics(self) -> dict[str, str]:
        """Create those of mirror's own topics that are missing.

        Returns the new ids, by name, of topics that were deleted and created again since the last call. It is cheap
        enough to be called each second. Raises FlowError if the target refuses.
        """
        ids, refused = self._target.ids_now(self._flow.own_topics)
        missing = [
            own_topic(self._flow, name)
            for name, error in refused.items()
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        ]
        problems = {name: ("seen", refused[name]) for name in refused.keys() - {topic.topic for topic in missing}}
        refused = self._create(missing)
        problems |= {name: ("created", error) for name, error in refused.items()}
        # Known from now on: what is deleted before the next call shows as created again, too.
        ids |= self._ids_of_new(topic.topic for topic in missing if topic.topic not in refused)
        for name, (done, error) in problems.items():
            said = f"topic {name} can't be {done} on {self._flow.target.alias}: {error.str()}"
            if name not in self._dispensable:
                raise FlowError(said, is_lasting(error))
            if self._why_not.is_new(said, name):
                log.warning(self._dispensable[name], extra={"flow": self._flow.name, "reason": said})
        return {name: topic_id for name, topic_id in ids.items() if self._own_ids.is_another(name, topic_id)}

    def mirrored(
        self,
        plan: Plan | None = None,
        decisions: Mapping[Partition, Decision] | None = None,
        permit: Callable[[Mapping[str, str]], object] = lambda _: None,
    ) -> dict[str, Topic]:
        """The source's topics that the flow mirrors, by name, with the partitions that are ready on the target.

        Creates and grows remote topics first. `plan` is the newest plan. If one of its remote topics is gone, that
        topic is created again only if the policy or one of the `decisions` says so. `permit` is called with all remote
        topics by source topic before any is created; it raises if another flow is in the way.
        """
        found, selection, existing = self._look(plan)
        permit(selection.remotes)
        self._log_left_out(selection)
        self._log_entries(found)
        mirrored = self._keeping_timestamps(found, selection, existing)
        before = plan.known if plan else {}
        known = self._known(mirrored, before)
        remade = {d.incident.remote_id for d in (decisions or {}).values() if d.incident.kind == "remote_topic"}
        names = {*map(self._policy.remote_topic, mirrored), *(topic.remote for topic in before.values())}
        names |= plan.unmarked.keys() if plan else set()
        retired = [topic for name, topic in before.items() if name not in mirrored]
        remote = self._remote_topics.look(names & existing.keys(), known, retired, lambda t: t.remote_id in remade)
        left = {name: topic for name, topic in known.items() if topic.remote in remote.lost | remote.doubtful}
        partitions = self._make({n: c for n, c in mirrored.items() if n not in left}, existing)
        lost = {name for name, topic in left.items() if topic.remote in remote.lost}
        self.coverage = covered(selection, found, existing, partitions, lost)
        new = (name for name in map(self._policy.remote_topic, partitions) if name not in remote.ids)
        self.remote_ids = {**remote.ids, **self._ids_of_new(new)}
        self._source_ids.learn({name: topic.topic_id for name, topic in before.items()})
        ids = self._source_ids.look(self._source.topic_ids(sorted({*partitions, *left})))
        kept = {
            n: replace(t, topic_id=ids[n], remote_lost=t.remote_lost or n in lost) for n, t in left.items() if n in ids
        }
        made = {name: self._topic(name, ids[name], count, known) for name, count in partitions.items() if name in ids}
        confirmed = self._confirmed.look({**kept, **made}, self._wanted(plan))
        self.awaits_confirmation = bool(remote.doubtful) or self._source_ids.doubtful or self._confirmed.doubtful
        return dict(sorted(confirmed.items()))

    def _wanted(self, plan: Plan | None) -> dict[str, Topic]:
        """The topics of the plan that nothing but a look that misses them keeps out of the next one."""
        topics = self._known(filter(self._policy.is_mirrored, plan.topics), plan.topics) if plan else {}
        return {name: topic for name, topic in topics.items() if topic.remote not in self.timestamps.refused}

    def _topic(self, name: str, topic_id: str, partitions: int, known: Mapping[str, Topic]) -> Topic:
        """A topic whose remote topic is there."""
        remote = self._policy.remote_topic(name)
        remote_id = self.remote_ids.get(remote) or (known[name].remote_id if name in known else "")
        compacted, largest = remote in self.timestamps.compacted, self.timestamps.largest.get(remote, BATCH_BYTES)
        return Topic(remote, topic_id, partitions, partitions, remote_id, compacted=compacted, largest=largest)

    def _known(self, mirrored: Iterable[str], before: Mapping[str, Topic]) -> dict[str, Topic]:
        """The mirrored topics as the last plan has them, by name: those whose remote topic it knows by its id."""
        known = {name: before[name] for name in mirrored if name in before}
        return {n: t for n, t in known.items() if t.remote_id and t.remote == self._policy.remote_topic(n)}

    def _ids_of_new(self, names: Iterable[str]) -> dict[str, str]:
        """The ids of topics that were just created. A broker may learn of them a moment later."""
        new = list(names)
        found: dict[str, str] = {}
        deadline = time.monotonic() + NEW_WITHIN
        while new and time.monotonic() < deadline:
            found |= self._target.topic_ids(new)
            new = [name for name in new if name not in found]
            if new:
                time.sleep(POLL_INTERVAL)
        return found

    def changes(self, plan: Plan | None) -> Changes:
        """What has to be created and grown on the target. Changes nothing. `plan` is the newest plan."""
        found, selection, existing = self._look(plan)
        mirrored = self._keeping_timestamps(found, selection, existing)
        return Changes(
            mirrored=mirrored,
            replacing=self.timestamps.refused,
            left_out=selection.left_out,
            unnamed=selection.unnamed,
            existing=existing,
            create={name: wanted for some in self._lacking(mirrored, existing) for name, wanted in some.items()},
            grow=self._short(mirrored, existing),
            internal=[name for name in self._flow.own_topics if name not in existing],
        )

    def _look(self, plan: Plan | None) -> tuple[dict[str, int], TopicSelection, dict[str, int]]:
        """The source's topics with partition counts, what is selected of them, and the target's topics with counts."""
        found = self._source.partitions()
        selection = select_topics(self._policy, found, lambda: plan.holders if plan else {}, always=True)
        return found, selection, self._target.partitions()

    def _keeping_timestamps(
        self, found: Mapping[str, int], selection: TopicSelection, existing: Mapping[str, int]
    ) -> dict[str, int]:
        """The partition counts of the mirrored topics, without those whose remote topic replaces timestamps."""
        self.timestamps.look(existing.keys() & selection.remotes.values())
        refused = set(self.timestamps.refused)
        return {name: found[name] for name, remote in selection.remotes.items() if remote not in refused}

    def _lacking(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> Iterator[Wanted]:
        """The remote topics to create, some at a time: if the source goes away meanwhile, those created so far stay."""
        remote = self._policy.remote_topic
        for some in chunks((name for name in mirrored if remote(name) not in existing), NAMES):
            configs = self._configs(some)
            yield {remote(name): (mirrored[name], configs.get(name, {})) for name in some}

    def _short(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, int]:
        """Remote topics that have too few partitions, with the number they need."""
        remote = {self._policy.remote_topic(name): count for name, count in mirrored.items()}
        return {name: count for name, count in remote.items() if existing.get(name, count) < count}

    def _make(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, int]:
        """Create and grow remote topics. Returns how many partitions of each topic can be copied."""
        refused: Refusals = {}
        remote = {name: self._policy.remote_topic(name) for name in mirrored}
        some_existing = [name for name in remote.values() if name in existing][:1]
        for wanted in self._lacking(mirrored, existing):
            refused |= self._create_remote(wanted, some_existing)
        refused |= self._grow(NewPartitions(name, count) for name, count in self._short(mirrored, existing).items())
        self._log_refused(refused)
        return {
            name: existing[remote[name]] if remote[name] in refused else count
            for name, count in mirrored.items()
            if remote[name] not in refused or remote[name] in existing
        }

    def _create_remote(self, wanted: Wanted, existing: Iterable[str]) -> Refusals:
        """Create remote topics, each with its partition count and configuration; `existing` are some that are there."""
        self._log_creating({name: count for name, (count, _) in wanted.items()})
        self.timestamps.note({name: own for name, (_, own) in wanted.items()})
        return RemoteTopicCreator(self._flow, self._target).create(wanted, existing)

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        configs, refused = self._source.configs(names)
        for name, error in refused.items():
            log.warning(
                "topic configuration can't be read, the remote topic gets the target's defaults",
                extra={"flow": self._flow.name, "topic": name, "reason": error.str()},
            )
        return {name: self._rules.at_creation(config) for name, config in configs.items()}

    def _create(self, topics: Iterable[NewTopic]) -> Refusals:
        wanted = list(topics)
        self._log_creating({topic.topic: topic.num_partitions for topic in wanted})
        return create(self._target, wanted)[0]

    def _log_creating(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            if name not in self.refused:
                log.info("creating topic", extra={"flow": self._flow.name, "topic": name, "partitions": count})

    def _grow(self, topics: Iterable[NewPartitions]) -> Refusals:
        wanted = list(topics)
        for topic in wanted:
            if topic.topic not in self.refused:
                where = {"flow": self._flow.name, "topic": topic.topic, "partitions": topic.new_total_count}
                log.info("adding partitions", extra=where)
        return self._target.create_partitions(wanted)

    def _log_left_out(self, selection: TopicSelection) -> None:
        """Log the topics that match the configuration and are not copied, by reason; again only when they change."""
        kinds = (
            (logging.INFO, "topics match the configuration but are left out", self._left_out, selection.left_out),
            (logging.WARNING, "topics are not mirrored because of their names", self.unnamed, selection.unnamed),
        )
        self._left_out, self.unnamed = selection.left_out, selection.unnamed
        for level, message, before, now in kinds:
            for reason in sorted({*now, *before}):
                names = now.get(reason, [])
                if names != before.get(reason, []):
                    fields = {"count": len(names), "topics": some_of(names), "reason": reason}
                    log.log(level, message, extra={"flow": self._flow.name, **fields})

    def _log_entries(self, topics: Mapping[str, int]) -> None:
        """Log the entries of the configuration that match no topic: at the first look, and after each change."""
        if self._judged is not self._flow:
            self._judged = self._flow
            if reason := warning(matches_nothing(self._flow, topics)):
                log.warning("entries match no topic", extra={"flow": self._flow.name, "reason": reason})

    def _log_refused(self, refused: Refusals) -> None:
        """Log each refused topic once, although every look tries again to create or grow it."""
        for name in refused.keys() - self.refused.keys():
            log.error(
                "the target refuses to create or grow the topic; partitions without a remote one are not mirrored",
                extra={"flow": self._flow.name, "topic": name, "reason": refused[name].str()},
            )
        self.refused = refused
