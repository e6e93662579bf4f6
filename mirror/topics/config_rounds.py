"""Rounds over the topics of a flow in which configurations of remote topics are kept in step."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from mirror.control.leader_rounds import LeaderRounds, RoundResult, RoundSchedule
from mirror.errors import MirrorError
from mirror.logs import OnChange
from mirror.model import Topic
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.topics.config_sync import ConfigOutcome, ConfigSync, TopicConfig
from mirror.topics.trusted import Trusted

log = logging.getLogger(__name__)

LOOK_INTERVAL = 2.0  # seconds between two looks for topics that were never compared


@dataclass(frozen=True, slots=True, eq=False)
class ConfigRound(RoundResult):
    """How the configurations stand after a round."""

    topics: tuple[TopicConfig, ...]  # all that were compared, in this round or before
    altered: tuple[TopicConfig, ...]  # in this round
    changes: int  # keys altered since the service started
    kept_by: str = ""  # the flow that keeps the configurations in step in place of this one; "" if none does


class ConfigRounds(LeaderRounds[ConfigRound]):
    """Makes a round each `sync_topic_configs_interval`, in a thread of its own. Only the flow leader has one.

    A topic that was never compared, or that was deleted and created again, does not wait for the interval, unless
    the last round has failed.
    """

    def __init__(self, flow: Flow, topics: Callable[[], Trusted], tell: Callable[[ConfigRound], object]) -> None:
        """`topics` gives the topics whose configurations may be kept in step now.

        `tell` gets how they stand after each round. Both are called in another thread, `tell` never after `stop` has
        returned.
        """
        super().__init__("configurations", flow, tell)
        self.kept_by = ""  # the flow that keeps them in step, so that this one must not; any thread may set it
        self._topics = topics
        # What follows is used by the thread alone.
        self._found: dict[str, TopicConfig] = {}
        self._changes = 0
        self._reasons = OnChange()  # of topics that are not in step
        self._said = OnChange()  # the changes of each topic as last logged
        self._why = OnChange()

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.sync_topic_configs

    def _none_yet(self, at: float) -> ConfigRound:
        return ConfigRound(at, (), (), self._changes, has_ended=False)

    def _make_rounds(self, stopping: threading.Event) -> None:
        interval = self._flow.sync_topic_configs_interval
        sync = ConfigSync(self._flow)
        schedule = RoundSchedule(interval)
        compared: set[tuple[Topic, bool]] = set()
        not_before = 0.0  # monotonic
        while not stopping.is_set():
            kept_by, trusted = self.kept_by, self._topics()
            # A topic is compared once more when its first record was copied: it may have been left out before.
            keys = {name: (topic, name in trusted.unproven) for name, topic in trusted.topics.items()}
            whole = schedule.is_due
            wanted = [name for name, key in keys.items() if whole or not (schedule.is_failing or key in compared)]
            if kept_by or not keys:
                self._keep_nothing(kept_by)
                compared, schedule = set(), RoundSchedule(interval)
                if kept_by:  # when it comes back after a short stop, what it had not brought yet has to be there
                    not_before = time.monotonic() + interval
            elif time.monotonic() < not_before:
                pass
            elif wanted and not self._round(sync, wanted, trusted, stopping):
                schedule.failed()
            elif wanted:
                compared = set(keys.values())
                if whole:
                    schedule.succeeded()
            stopping.wait(min(LOOK_INTERVAL, interval))

    def _round(self, sync: ConfigSync, wanted: Iterable[str], trusted: Trusted, stopping: threading.Event) -> bool:
        """Compare the `wanted` ones of the trusted topics. False if it has failed."""
        where = {"flow": self._flow.name}
        found: list[TopicConfig] = []
        failed = ""
        try:
            topics = self._with_own_records(sync, {name: trusted.topics[name] for name in wanted}, trusted.unproven)
            for each in sync.round(topics, lambda: not stopping.is_set()):
                found.append(each)
                self._log_altered(each)
        except MirrorError as error:
            failed = str(error)
            if self._why.is_new(failed):
                said = {**where, "reason": failed}
                log.warning("topic configurations can't be compared now, the next round tries again", extra=said)
        else:
            if self._why.clear():
                log.info("topic configurations are compared again", extra=where)
        self._log_reasons(found)
        self._keep(found, trusted.topics, failed)
        return not failed

    def _with_own_records(
        self, sync: ConfigSync, topics: Mapping[str, Topic], unproven: Collection[str]
    ) -> dict[str, Topic]:
        """The topics without those whose remote topic has, or had, records that this flow has not copied."""
        asked = {} if self._flow.append_to_existing else {n: t for n, t in topics.items() if n in unproven}
        empty = sync.empty(asked.values())
        return {name: topic for name, topic in topics.items() if name not in asked or topic.remote in empty}

    def _keep(self, found: Iterable[TopicConfig], topics: Collection[str], problem: str) -> None:
        """Remember what was found, also by a round that has failed later, and tell it."""
        altered = tuple(each for each in found if each.outcome is ConfigOutcome.ALTERED)
        self._changes += sum(len(each.changes) for each in altered)
        known = self._found | {each.topic: each for each in found}
        self._found = {name: each for name, each in known.items() if name in topics}
        result = ConfigRound(time.time(), tuple(self._found.values()), altered, self._changes, problem=problem)

        def publish() -> None:
            last = self._last()
            self._publish(replace(result, at=last.at, has_ended=last.has_ended) if problem else result)

        self._thread.tell(publish)

    def _keep_nothing(self, kept_by: str) -> None:
        """Tell that there is nothing to compare, so that nothing gets older."""
        self._found = {}
        nothing = ConfigRound(time.time(), (), (), self._changes, kept_by)
        self._thread.tell(lambda: self._publish(replace(nothing, has_ended=bool(kept_by) or self._last().has_ended)))

    def _log_altered(self, each: TopicConfig) -> None:
        """Log what was altered. One that has no effect is logged once."""
        if each.outcome is ConfigOutcome.IN_STEP:
            self._said.clear(each.topic)
        if each.outcome is ConfigOutcome.ALTERED and self._said.is_new(each.changes, each.topic):
            changes = ", ".join(map(str, each.changes))
            where = {"flow": self._flow.name, "topic": each.topic, "remote_topic": each.remote, "changes": changes}
            log.info("topic configuration altered", extra=where)

    def _log_reasons(self, found: Iterable[TopicConfig]) -> None:
        """Log once of each topic why it is not in step; topics with the same reason together."""
        new: dict[str, list[str]] = {}
        for each in found:
            if not each.reason:
                self._reasons.clear(each.topic)
            elif self._reasons.is_new(each.reason, each.topic):
                new.setdefault(each.reason, []).append(each.topic)
        for reason, names in new.items():
            where = {"flow": self._flow.name, "count": len(names), "topics": some_of(names), "reason": reason}
            log.warning("topic configurations are not in step; copying goes on, each round tries again", extra=where)
