"""What is told of the flow leader's rounds: also while none has ever succeeded, so that an alert can fire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mirror.control import leader_rounds
from mirror.control.leader_rounds import LeaderRounds, RoundResult
from mirror.errors import FlowError
from mirror.groups import group_rounds
from mirror.groups.group_rounds import GroupRounds
from mirror.model import Topic
from mirror.status.config_overview import configs_view
from mirror.topics import acl_rounds, config_rounds
from mirror.topics.acl_rounds import AclRounds
from mirror.topics.config_rounds import ConfigRound, ConfigRounds
from mirror.topics.config_rules import Change
from mirror.topics.config_sync import ConfigOutcome, TopicConfig
from mirror.topics.trusted import Trusted
from tests.harness.waiting import until
from tests.unit.test_naming import flow

DENIED = "the source does not give its ACLs"
QUICK = replace(
    flow(groups=replace(flow().groups, interval=0.01)),
    sync_acls=True,
    sync_acls_interval=0.01,
    sync_topic_configs_interval=0.01,
)
ALTERED = TopicConfig("t", "primary.t", ConfigOutcome.ALTERED, (Change("k", "1", "2"),))


class Sync:
    """Stands for what makes a round, and fails as long as it has a reason to."""

    def __init__(self) -> None:
        self.why = DENIED
        self.rounds = 0
        self.found: list[Any] = []
        self.refused: Mapping[str, str] = {}
        self.left_out: Mapping[str, str] = {}

    def round(self, *_: object) -> Iterable[Any]:
        self.rounds += 1
        if self.why:
            raise FlowError(self.why)
        return self.found

    def empty(self, topics: Iterable[Topic]) -> set[str]:
        return {topic.remote for topic in topics}

    def write(self, _: object) -> None:
        """No checkpoints."""

    def close(self) -> None:
        """Nothing is open."""


class Told:
    """Rounds of one kind that do not ask any cluster, and what they have told."""

    def __init__(self, kind: str, sync: Sync) -> None:
        self.sync = sync
        self.found: list[RoundResult] = []
        self.trusted = Trusted({"t": Topic("primary.t", "id", 1, 0)}, frozenset())
        self.looks = 0
        kinds: dict[str, Callable[[], LeaderRounds[Any]]] = {
            "groups": lambda: GroupRounds(QUICK, self.found.append),
            "configurations": lambda: ConfigRounds(QUICK, self.look, self.found.append),
            "ACLs": lambda: AclRounds(QUICK, self.look, self.found.append),
        }
        self.rounds = kinds[kind]()

    def look(self) -> Trusted:
        self.looks += 1
        return self.trusted

    @property
    def last(self) -> RoundResult:
        return self.found[-1]

    def await_rounds(self, more: int = 2) -> None:
        wanted = self.sync.rounds + more
        until(f"{more} more rounds", lambda: self.sync.rounds >= wanted)

    def await_end(self) -> None:
        self.rounds.stop()
        until("it has ended", lambda: self.rounds._thread.join(0.1))


@pytest.fixture(params=["groups", "configurations", "ACLs"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    sync = Sync()
    for module, names in (
        (group_rounds, ("GroupSync", "CheckpointWriter")),
        (config_rounds, ("ConfigSync",)),
        (acl_rounds, ("AclSync",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda _: sync)
    found = Told(request.param, sync)
    yield found
    found.await_end()


def test_configurations_that_another_flow_keeps_are_left_alone_until_it_does_not(told: Told) -> None:
    if not isinstance(told.rounds, ConfigRounds):
        return
    told.sync.why = ""
    told.rounds.kept_by = "backup->primary"
    told.rounds.start()
    until("it is told", lambda: bool(told.found) and getattr(told.last, "kept_by", "") == "backup->primary")
    assert isinstance(told.last, ConfigRound)
    view = configs_view(told.last)
    assert view.kept_by == "backup->primary" and view.at is not None and not told.sync.rounds
    told.rounds.kept_by = ""
    told.await_rounds()
    until("it is not told any more", lambda: not getattr(told.last, "kept_by", ""))


def test_rounds_that_never_succeed_are_as_old_as_the_flow_leader_tries(told: Told) -> None:
    began = time.time()
    told.rounds.start()
    until("it is told that none has ended", lambda: bool(told.found))
    assert (told.found[0].has_ended, told.found[0].ended_at, told.found[0].problem) == (False, None, "")
    told.await_rounds()
    until("the reason is told", lambda: told.last.problem == DENIED)
    assert not told.last.has_ended and told.last.ended_at is None
    assert began <= told.last.at <= time.time()
    assert len({each.at for each in told.found}) == 1, "the time stands still"


def test_the_first_round_that_ends_and_one_that_fails_later(told: Told) -> None:
    told.sync.why = ""
    told.rounds.start()
    until("one has ended", lambda: bool(told.found) and told.last.has_ended)
    assert told.last.at > told.found[0].at and told.last.ended_at == told.last.at
    told.sync.why = DENIED
    told.await_rounds()
    until("the reason is told", lambda: told.last.problem == DENIED)
    last = told.last
    told.await_rounds()
    assert told.last.has_ended and told.last.at == last.at, "when the last one ended that succeeded"
    told.sync.why = ""
    until("it succeeds again", lambda: not told.last.problem)
    assert told.last.at > last.at


def test_other_settings_do_not_make_rounds_look_younger_but_another_lead_does(told: Told) -> None:
    told.rounds.start()
    until("the reason is told", lambda: bool(told.found) and told.last.problem == DENIED)
    first = told.last.at
    told.rounds.reconfigure(QUICK)
    until("it has ended", lambda: told.rounds._thread.join(0.1))
    told.found.clear()
    told.rounds.start()
    until("it is told again", lambda: bool(told.found))
    assert told.last.at == first
    told.await_end()  # another service leads
    told.found.clear()
    told.rounds.start()
    until("it is told anew", lambda: bool(told.found))
    assert told.last.at > first and not told.last.has_ended
    unwanted = replace(QUICK, sync_acls=False, sync_topic_configs=False)
    told.rounds.reconfigure(replace(unwanted, groups=replace(QUICK.groups, sync=False, checkpoints=False)))
    assert not told.rounds.wanted
    until("it has ended", lambda: told.rounds._thread.join(0.1))
    second = told.last.at
    told.rounds.reconfigure(QUICK)
    told.found.clear()
    told.rounds.start()
    until("it is told anew", lambda: bool(told.found))
    assert told.last.at > second


SELDOM = replace(QUICK, sync_acls_interval=3_600.0, sync_topic_configs_interval=3_600.0)


@pytest.mark.parametrize("told", ["configurations", "ACLs"], indirect=True)
def test_a_round_that_has_failed_is_not_repeated_at_each_look_nor_after_the_whole_interval(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (config_rounds, acl_rounds):
        monkeypatch.setattr(module, "LOOK_INTERVAL", 0.01)
    told.rounds.reconfigure(SELDOM)
    told.rounds.start()
    until("it has failed", lambda: bool(told.found) and told.last.problem == DENIED)
    told.trusted = Trusted({**told.trusted.topics, "u": Topic("primary.u", "id", 1, 0)}, frozenset())
    until("some looks", lambda: told.looks > 20)
    assert told.sync.rounds == 1, "not even for another topic"
    told.await_end()
    monkeypatch.setattr(leader_rounds, "RETRY", 0.05)
    told.rounds.start()
    told.await_rounds()
    told.sync.why = ""
    until("it succeeds", lambda: told.last.has_ended and not told.last.problem)
    rounds, looks = told.sync.rounds, told.looks
    until("more looks", lambda: told.looks > looks + 20)
    assert told.sync.rounds == rounds, "now the interval counts"


@pytest.mark.parametrize("told", ["configurations"], indirect=True)
def test_where_there_is_nothing_to_compare_nothing_gets_older(told: Told) -> None:
    told.trusted = Trusted({}, frozenset())
    told.rounds.start()
    until("time goes on", lambda: len({each.at for each in told.found}) > 2)
    assert not told.last.has_ended and not told.sync.rounds
    told.trusted = Trusted({"t": Topic("primary.t", "id", 1, 0)}, frozenset())
    told.await_rounds()
    until("the reason is told", lambda: told.last.problem == DENIED)
    before = told.last.at
    told.await_rounds()
    assert told.last.at == before


@pytest.mark.parametrize("told", ["configurations"], indirect=True)
def test_what_was_altered_is_told_once(told: Told) -> None:
    told.sync.why, told.sync.found = "", [ALTERED]
    told.rounds.start()
    until("it is altered", lambda: any(_altered(each) for each in told.found))
    told.sync.found = []
    told.await_rounds()
    until("another round ends", lambda: not _altered(told.last))
    told.sync.why = DENIED
    count = sum(map(_altered, told.found))
    until("one has failed", lambda: told.last.problem == DENIED)
    told.trusted = Trusted({}, frozenset())
    until("there is nothing", lambda: not told.last.problem)
    assert sum(map(_altered, told.found)) == count
    last = told.last
    assert isinstance(last, ConfigRound) and last.changes == count and not last.topics


def _altered(found: RoundResult) -> bool:
    return isinstance(found, ConfigRound) and bool(found.altered)
