"""Which topics the source has for a flow, and their remote topics on the target."""

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
from mirror.kafka.clients import INTERNAL_MAX, is_lasting
from mirror.kafka.cluster import NAMES, ClusterAdmin, Refusals, chunks
from mirror.kafka.topic_ids import KnownIds
from mirror.model import Partition, Topic
from mirror.naming import LeftOut, ReplicationPolicy, left_out_topics, some_of
from mirror.settings import Flow
from mirror.target.remote_topics import RemoteTopicsMonitor
from mirror.target.timestamps import KEEP, TimestampCheck

log = logging.getLogger(__name__)

# MirrorMaker's config.properties.exclude, and what else belongs to a cluster rather than to its data.
EXCLUDED_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
# The limit is on a batch of records, and batches are not those of the source; Kafka's own default.
BATCH_BYTES = 1_048_588
EXCLUDED_PREFIXES = ("confluent.", "local.retention.", "remote.")

# What the source took, the target must not refuse for its age; Kafka 4 refuses what is an hour ahead (KIP-1030).
ANY_TIME = {"message.timestamp.before.max.ms": str(2**63 - 1), "message.timestamp.after.max.ms": str(2**63 - 1)}

# A report or plan must not wait for hours to be compacted away, or a new reader reads for long. A plan has every
# partition.
INTERNAL_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(INTERNAL_MAX),
}

# Most records that are refused are so because they are too large.
DEAD_LETTER_CONFIG = {"max.message.bytes": str(2**31 - 1)}

NEW_WITHIN, LOOK_INTERVAL = 2.0, 0.1  # seconds in which brokers hear of a new topic, and between two looks

Wanted = Mapping[str, tuple[int, Mapping[str, str]]]  # remote topics with partitions and configuration


@dataclass(frozen=True, slots=True)
class Changes:
    """What the target lacks, and what is there."""

    mirrored: Mapping[str, int]  # topics of the source that the flow mirrors, with their partitions
    replacing: Sequence[str]  # remote topics that replace timestamps: theirs are not mirrored
    left_out: LeftOut
    existing: Mapping[str, int]  # topics of the target, with theirs
    create: Wanted
    grow: Mapping[str, int]  # remote topics with the partitions they shall have
    internal: Sequence[str]  # mirror's own topics


class TopicMonitor:
    """Looks at both clusters of a flow. Raises ClusterAway when one does not answer."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._source = ClusterAdmin(flow.source)
        self._target = ClusterAdmin(flow.target)
        self._policy = ReplicationPolicy.of(flow)
        self._remote_topics = RemoteTopicsMonitor(flow, self._target)
        self.refused: Refusals = {}  # remote topics that could not be created or grown at the last look
        self.remote_ids: Mapping[str, str] = {}  # of all remote topics at the last look
        self.in_doubt = False  # has the last look seen a change that the next one has to confirm?
        self.timestamps = TimestampCheck(flow, self._target)
        self._left_out: LeftOut = {}  # at the last look
        self._own_ids = KnownIds()

    def ensure_internal_topics(self) -> dict[str, str]:
        """Make mirror's own topics where they are missing; returns the ids of those that were others before.

        May be called each second. Raises FlowError if refused.
        """
        factor, letters = self._flow.internal_replication_factor, self._flow.dead_letter_topic
        ids, refused = self._target.ids_now(self._flow.own_topics)
        missing = [
            NewTopic(name, 1, factor, config=DEAD_LETTER_CONFIG if name == letters else INTERNAL_CONFIG)
            for name, error in refused.items()
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        ]
        for name, error in self._create(missing).items():
            said = f"topic {name} can't be created on {self._flow.target.alias}: {error.str()}"
            raise FlowError(said, is_lasting(error))
        for name in refused.keys() - {topic.topic for topic in missing}:
            said = f"topic {name} can't be seen on {self._flow.target.alias}: {refused[name].str()}"
            raise FlowError(said, is_lasting(refused[name]))
        return {name: topic_id for name, topic_id in ids.items() if self._own_ids.is_another(name, topic_id)}

    def mirrored(
        self,
        plan: Plan | None = None,
        decisions: Mapping[Partition, Decision] | None = None,
        goes_on: Callable[[], object] = lambda: None,
        permit: Callable[[Mapping[str, str]], object] = lambda _: None,
    ) -> dict[str, Topic]:
        """The source's topics that the flow mirrors, by name, with the partitions that stand ready on the target.

        `plan` is the newest one: a remote topic that it has is not made again when it is gone, unless the policy or one
        of the `decisions` says so. Thousands of new ones take minutes: `goes_on` is called now and then. `permit` is
        given all remote topics, by source topic, and may raise before any is made.
        """
        mirrored, left_out, existing = self._look()
        permit({name: self._policy.remote_topic(name) for name in mirrored})
        self._tell_left_out(left_out)
        mirrored = self._keeping_timestamps(mirrored, existing, goes_on)
        before = plan.known if plan else {}
        known = self._known(mirrored, before)
        remade = {d.incident.remote_id for d in (decisions or {}).values() if d.incident.kind == "remote_topic"}
        names = {*map(self._policy.remote_topic, mirrored), *(topic.remote for topic in before.values())}
        remote = self._remote_topics.look(
            names & existing.keys(), known.values(), lambda topic: topic.remote_id in remade
        )
        self.in_doubt = bool(remote.doubtful)
        left = {name: topic for name, topic in known.items() if topic.remote in remote.lost | remote.doubtful}
        partitions = self._make({n: c for n, c in mirrored.items() if n not in left}, existing, goes_on)
        self.remote_ids = {**remote.ids, **self._new_ids(partitions, remote.ids)}
        ids = self._source.topic_ids(sorted({*partitions, *left}))
        topics = {}
        for name, topic_id in sorted(ids.items()):
            if name in left:
                topics[name] = replace(left[name], topic_id=topic_id, remote_lost=left[name].remote in remote.lost)
            else:
                target = self._policy.remote_topic(name)
                remote_id = self.remote_ids.get(target) or (known[name].remote_id if name in known else "")
                topics[name] = Topic(target, topic_id, partitions[name], partitions[name], remote_id)
        return topics

    def _known(self, mirrored: Iterable[str], before: Mapping[str, Topic]) -> dict[str, Topic]:
        """Of the topics that are mirrored, those of which the last plan knew the remote topic."""
        known = {name: before[name] for name in mirrored if name in before}
        return {n: t for n, t in known.items() if t.remote_id and t.remote == self._policy.remote_topic(n)}

    def _new_ids(self, partitions: Iterable[str], ids: Mapping[str, str]) -> dict[str, str]:
        """Of remote topics that were made just now. A broker may hear of them a moment later."""
        new = [name for name in map(self._policy.remote_topic, partitions) if name not in ids]
        found: dict[str, str] = {}
        deadline = time.monotonic() + NEW_WITHIN
        while new and time.monotonic() < deadline:
            found |= self._target.topic_ids(new)
            new = [name for name in new if name not in found]
            if new:
                time.sleep(LOOK_INTERVAL)
        return found

    def changes(self) -> Changes:
        """What has to be made on the target; makes nothing."""
        mirrored, left_out, existing = self._look()
        mirrored = self._keeping_timestamps(mirrored, existing)
        return Changes(
            mirrored=mirrored,
            replacing=self.timestamps.refused,
            left_out=left_out,
            existing=existing,
            create={name: wanted for some in self._lacking(mirrored, existing) for name, wanted in some.items()},
            grow=self._short(mirrored, existing),
            internal=self._missing_internal(existing),
        )

    def _look(self) -> tuple[dict[str, int], LeftOut, dict[str, int]]:
        """The source's topics that the flow mirrors and all of the target, with their partitions; what is left out."""
        found = self._source.partitions()
        mirrored = {name: n for name, n in found.items() if self._policy.is_mirrored(name)}
        return mirrored, left_out_topics(self._policy, found), self._target.partitions()

    def _keeping_timestamps(
        self, mirrored: Mapping[str, int], existing: Mapping[str, int], goes_on: Callable[[], object] = lambda: None
    ) -> dict[str, int]:
        """`mirrored` without what the target would alter."""
        remote = {name: self._policy.remote_topic(name) for name in mirrored}
        self.timestamps.look(existing.keys() & remote.values(), goes_on)
        refused = set(self.timestamps.refused)
        return {name: count for name, count in mirrored.items() if remote[name] not in refused}

    def _lacking(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> Iterator[Wanted]:
        """What the target has to create, some at a time: what is made of it stays, should the source go away then."""
        remote = self._policy.remote_topic
        for some in chunks((name for name in mirrored if remote(name) not in existing), NAMES):
            configs = self._configs(some)
            yield {remote(name): (mirrored[name], configs.get(name, {})) for name in some}

    def _short(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, int]:
        """Remote topics that have too few partitions, with the number they shall have."""
        remote = {self._policy.remote_topic(name): count for name, count in mirrored.items()}
        return {name: count for name, count in remote.items() if existing.get(name, count) < count}

    def _missing_internal(self, existing: Mapping[str, int]) -> list[str]:
        return [name for name in self._flow.own_topics if name not in existing]

    def _make(
        self, mirrored: Mapping[str, int], existing: Mapping[str, int], goes_on: Callable[[], object]
    ) -> dict[str, int]:
        """Create and grow remote topics; returns how many partitions of each topic can be copied."""
        refused: Refusals = {}
        for wanted in self._lacking(mirrored, existing):
            refused |= self._create_remote(wanted)
            goes_on()
        refused |= self._grow(NewPartitions(name, count) for name, count in self._short(mirrored, existing).items())
        self._tell(refused)
        remote = {name: self._policy.remote_topic(name) for name in mirrored}
        return {
            name: existing[remote[name]] if remote[name] in refused else count
            for name, count in mirrored.items()
            if remote[name] not in refused or remote[name] in existing
        }

    def _create_remote(self, wanted: Wanted) -> Refusals:
        """Create remote topics, given how many partitions and which configuration each has."""
        factor = self._flow.replication_factor
        kept = {name: (count, {**own, **KEEP}) for name, (count, own) in wanted.items()}
        refused = self._create(NewTopic(t, n, factor, config={**config, **ANY_TIME}) for t, (n, config) in kept.items())
        # Brokers before Kafka 3.6 don't know ANY_TIME, and don't need it.
        older = [topic for topic, error in refused.items() if error.code() == KafkaError.INVALID_CONFIG]
        for topic in older:
            del refused[topic]
        return refused | self._create(NewTopic(t, kept[t][0], factor, config=kept[t][1]) for t in older)

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        configs, refused = self._source.topic_configs(names)
        for name, error in refused.items():
            log.warning(
                "topic configuration can't be read, the remote topic gets the target's defaults",
                extra={"flow": self._flow.name, "topic": name, "reason": error.str()},
            )
        return {name: {k: v for k, v in own.items() if _belongs_to_data(k, v)} for name, own in configs.items()}

    def _create(self, topics: Iterable[NewTopic]) -> Refusals:
        wanted = list(topics)
        for topic in wanted:
            if topic.topic not in self.refused:
                where = {"flow": self._flow.name, "topic": topic.topic, "partitions": topic.num_partitions}
                log.info("creating topic", extra=where)
        return self._target.create_topics(wanted)

    def _grow(self, topics: Iterable[NewPartitions]) -> Refusals:
        wanted = list(topics)
        for topic in wanted:
            if topic.topic not in self.refused:
                where = {"flow": self._flow.name, "topic": topic.topic, "partitions": topic.new_total_count}
                log.info("adding partitions", extra=where)
        return self._target.create_partitions(wanted)

    def _tell_left_out(self, left_out: LeftOut) -> None:
        """What `topics` matches and is not copied: once, and again when it changes."""
        before, self._left_out = self._left_out, left_out
        for reason in sorted({*left_out, *before}):
            names = left_out.get(reason, [])
            if names != before.get(reason, []):
                told = {"count": len(names), "topics": some_of(names), "reason": reason}
                log.info("topics match the configuration but are left out", extra={"flow": self._flow.name, **told})

    def _tell(self, refused: Refusals) -> None:
        """Once for each topic: what is refused is asked again at every look."""
        for name in refused.keys() - self.refused.keys():
            log.error(
                "the target refuses to create or grow the topic; partitions without a remote one are not mirrored",
                extra={"flow": self._flow.name, "topic": name, "reason": refused[name].str()},
            )
        self.refused = refused


def _belongs_to_data(key: str, value: str) -> bool:
    if key == "max.message.bytes":
        return int(value) >= BATCH_BYTES
    return key not in EXCLUDED_CONFIGS and not key.startswith(EXCLUDED_PREFIXES)
