"""Looks for remote topics that replace the timestamps of records, for those that are compacted, and what they take."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from confluent_kafka import KafkaError

from mirror.kafka.cluster import NAMES, ClusterAdmin, Refusals, chunks
from mirror.kafka.topic_configs import size_of
from mirror.logs import OnChange
from mirror.settings import Flow

log = logging.getLogger(__name__)

TYPE = "message.timestamp.type"
REPLACED = "LogAppendTime"
CLEANUP = "cleanup.policy"
LARGEST = "max.message.bytes"
KEEP = {TYPE: "CreateTime"}  # of a remote topic, whatever the brokers' default (log.message.timestamp.type) is
AT_ONCE = 1_000  # topics that are asked for again at one look: 2.4 MB of answers, 0.2 s of this process
REASON = f"its {TYPE} is {REPLACED}, so the target would replace every timestamp"


def remedy(flow: Flow, topic: str) -> str:
    """The command that makes one remote topic keep timestamps."""
    servers = flow.target.properties["bootstrap.servers"]
    command = f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic}"
    return f"{command} --add-config {TYPE}={KEEP[TYPE]} (or set accept_log_append_time: true)"


class TimestampCheck:
    """Finds the remote topics of a flow that replace timestamps, and logs each once."""

    def __init__(self, flow: Flow, target: ClusterAdmin) -> None:
        self._flow = flow
        self._target = target
        self._kept: list[str] = []  # topics that kept timestamps at their last look, that of the oldest look first
        self._logged, self._hidden = OnChange(), OnChange()
        self.refused: Sequence[str] = ()  # topics that replace timestamps, sorted; empty if the flow accepts that
        self.compacted: set[str] = set()  # topics, as last seen or created
        self.largest: dict[str, int] = {}  # by topic, bytes of the largest batch that it takes, if that is known

    def reconfigure(self, flow: Flow) -> None:
        """Follow other settings. If they accept other topics, the next look asks for all of them."""
        if flow.accept_log_append_time != self._flow.accept_log_append_time:
            self._kept = []
        self._flow = flow

    def look(self, existing: Iterable[str]) -> None:
        """Ask for the effective setting of remote topics. Raises ClusterAway.

        If it can't be read, the producer still learns it from the target's answers.
        """
        wanted = set(existing)
        asked = due(wanted, self._kept)
        found: set[str] = set()
        for some in chunks(asked, NAMES):
            configs, hidden = self._target.topic_configs(some, own=False)
            if not self._flow.accept_log_append_time:
                found |= {name for name, config in configs.items() if config.get(TYPE) == REPLACED}
            self.note(configs)
            self.compacted |= hidden.keys()  # they may be compacted, and then no record can be counted there
            self._log_hidden(hidden)
        looked = set(asked)
        self._kept = [name for name in self._kept if name in wanted - looked]
        self._kept += [name for name in asked if name not in found]
        self._refuse(sorted(found))

    def note(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Remember which topics are compacted, and how large their batches may be, by their configurations."""
        self.compacted -= configs.keys()
        self.compacted |= {name for name, config in configs.items() if "compact" in config.get(CLEANUP, "")}
        others = {name: size for name, size in self.largest.items() if name not in configs}
        sizes = {name: size_of(config.get(LARGEST)) for name, config in configs.items()}
        self.largest = others | {name: size for name, size in sizes.items() if size is not None}

    def _log_hidden(self, hidden: Refusals) -> None:
        is_denied = any(e.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED for e in hidden.values())
        if is_denied and self._hidden.is_new(True):
            log.warning(
                "whether remote topics replace timestamps can't be read, allow DescribeConfigs on them",
                extra={"flow": self._flow.name},
            )

    def _refuse(self, found: Sequence[str]) -> None:
        self.refused = found
        for name in self._logged.added(found):
            where = {"flow": self._flow.name, "topic": name, "reason": REASON, "remedy": remedy(self._flow, name)}
            log.error("remote topic replaces timestamps, its partitions are not copied", extra=where)


def may_be_compacted(config: Mapping[str, str]) -> bool:
    """True if compaction removes records of a topic with this configuration, or if that can't be seen."""
    return "compact" in config.get(CLEANUP, "compact")


def due(wanted: Collection[str], kept: Sequence[str], max_topics: int = AT_ONCE) -> list[str]:
    """The topics to ask for now: all that are new or replaced timestamps, then others in turn, `max_topics` in all."""
    news = sorted(set(wanted).difference(kept))
    return news + [name for name in kept if name in wanted][: max(0, max_topics - len(news))]
