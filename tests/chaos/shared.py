"""Both clusters write to the topic, with `active_active`: the same faults, and each record has to be on both once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from tests.chaos.arena import Arena
from tests.chaos.recorder import Recorder, wait
from tests.chaos.sender import Sender
from tests.checker.groups import check_group_of_both
from tests.checker.history import History, Record
from tests.checker.own import check_own
from tests.harness import configuration, oracle, topics
from tests.harness.load import Made, mixed
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE, until

HEADER = "mirror.provenance"
MARK = {"replication_policy": "identity", "active_active": True}
SPARK = {"master": "local[4]"}  # the flows share the cores: each may have as many tasks as where one runs alone
BACK_TIMEOUT = 90.0  # seconds until all has come to the source


def settings(pair: Pair, flow: Mapping[str, Any], **top: Any) -> configuration.Settings:
    """One configuration of both flows."""
    top = {"spark": SPARK, **top}
    own = {**flow, **MARK}
    back = {**own, "sync_topic_configs": False}
    names = [f"{pair.prefix}.*"]
    return configuration.together(
        configuration.one_flow(pair.source, pair.target, names, alias=pair.alias, flow=own, **top),
        configuration.one_flow(pair.target, pair.source, names, alias="backup", target_alias=pair.alias, flow=back),
    )


def elsewhere(number: int) -> Made:
    """A record of the target's own programs: none of the source's is the same."""
    return mixed(10**9 + number)


class SharedRecorder(Recorder):
    """The recorder of a topic to which programs write on both sides. The history has the first flow's records."""

    judges_groups = False  # as `finish` does it, once all has come to the source

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena.pair)
        self._arena = arena
        self._ids = {
            place: str(topics.admin(place).list_topics(timeout=PATIENCE).cluster_id)
            for place in (arena.pair.source, arena.pair.target)
        }
        self._others = [
            Sender(arena.pair.target, self.topic, each.partition, self._rate, elsewhere) for each in self.senders
        ]

    @classmethod
    def at(cls, arena: Arena) -> SharedRecorder:
        """A recorder in this place."""
        return cls(arena)

    def __enter__(self) -> SharedRecorder:
        until("the remote topic", lambda: topics.partitions(self.pair.target, self.topic) == len(self.senders))
        for each in self._others:
            each.start()
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for each in self._others:
            with contextlib.suppress(Exception):
                each.stop()
        with contextlib.suppress(Exception):  # or each flow would create again what is deleted on its target
            self._arena.service.terminate()
        try:
            super().__exit__(kind, error, _)
        finally:
            self._arena.start_service().await_plan()

    def own(self, number: int, records: Iterable[Record]) -> list[Record]:
        """The records that programs have written to the source."""
        return self._written(number, records, self.pair.target)

    def copies(self, number: int, records: Iterable[Record]) -> list[Record]:
        """The records that were copied to the target, as they were on the source."""
        return self._brought(number, records, self.pair.source)

    def _written(self, number: int, records: Iterable[Record], other: str) -> list[Record]:
        header = self._header(number, other)
        return [record for record in records if header not in record.headers]

    def _brought(self, number: int, records: Iterable[Record], source: str) -> list[Record]:
        header = self._header(number, source)
        return [
            record._replace(headers=tuple(each for each in record.headers if each != header))
            for record in records
            if header in record.headers
        ]

    def _header(self, number: int, place: str) -> tuple[str, bytes]:
        return HEADER, f"{self.topic},{number},{self._ids[place]}".encode()

    def finish(self) -> list[History]:
        """Stop the load, wait until all is copied, read everything, and compare the other direction."""
        for each in self._others:
            each.stop()
        histories = super().finish()
        there = oracle.read(self.pair.target, self.topic)
        own = {number: self._written(number, records, self.pair.source) for number, records in there.items()}
        self._judge_back({number: [record.content for record in records] for number, records in own.items()})
        here = oracle.read(self.pair.source, self.topic)
        for other in self._others:
            violations = check_own(other.sent, own[other.partition], self.own(other.partition, here[other.partition]))
            self.complaints += [f"partition {other.partition}: {v.invariant} {v.what}" for v in violations[:5]]
        self.complaints += self._judge_groups(here, there)
        return histories

    def _judge_back(self, wanted: Mapping[int, Sequence[tuple[object, ...]]]) -> None:
        """Wait until the source has the copies of what programs have written to the target, and compare them."""

        def back() -> dict[int, list[tuple[object, ...]]]:
            here = oracle.read(self.pair.source, self.topic)
            return {n: [r.content for r in self._brought(n, some, self.pair.target)] for n, some in here.items()}

        wait("all has come to the source", lambda: back() == wanted, BACK_TIMEOUT)
        found = back()
        for number, contents in wanted.items():
            if found[number] != contents:
                lost, more = len(set(contents) - {*found[number]}), len(found[number]) - len({*found[number]})
                said = f"{len(contents)} records, {len(found[number])} on the source: {lost} lost, {more} doubled"
                self.complaints.append(f"partition {number} of the target has {said}, or their order differs")
            if not contents:
                self.complaints.append(f"partition {number} of the target has no records of its own")

    def _judge_groups(self, here: oracle.Records, there: oracle.Records) -> list[str]:
        """No group passes over a record that it has not read, be it of the source's programs or of the target's."""
        source = {n: {each.offset: each for each in self._plain(n, records)} for n, records in here.items()}
        target = {n: self._plain(n, records) for n, records in there.items()}
        return self.groups.judge(source, target, check_group_of_both)

    def _plain(self, number: int, records: Iterable[Record]) -> list[Record]:
        """All of them, without mirror's header."""
        ours = {self._header(number, place) for place in self._ids}
        return [
            record._replace(headers=tuple(each for each in record.headers if each not in ours)) for record in records
        ]
