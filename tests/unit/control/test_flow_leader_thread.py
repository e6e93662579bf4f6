"""Threads that only the flow leader has: one at a time, none that a defect ends for good, none that tells too much."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any

import pytest

from mirror import settings
from mirror.control.flow_leader_thread import FlowLeaderPart, FlowLeaderThread
from mirror.groups.group_rounds import GroupRounds, Round
from mirror.groups.heartbeat_sender import HeartbeatSender
from mirror.groups.map_cleaner import MapCleaner
from mirror.groups.mirrormaker_offsets import MirrorMakerOffsets
from mirror.model import Topic
from mirror.service.canary import Canary
from mirror.settings import Cluster, Flow, Heartbeats
from mirror.status.canary import CanaryStatus
from mirror.target.position_renewal import Renewal
from mirror.text import BUG
from mirror.topics.acl_rounds import AclRound, AclRounds
from mirror.topics.config_rounds import ConfigRound, ConfigRounds
from mirror.topics.trusted import Trusted
from tests.harness.waiting import until
from tests.unit.test_naming import flow

# No path. In a configuration it is an error, so here it is a defect.
BAD: dict[str, Any] = {"ssl.ca.location": 1}


def broken() -> Flow:
    """A flow for which no client can be made."""
    source, target = (Cluster(alias, BAD, {}, {}) for alias in ("primary", "backup"))
    wanted = settings.MirrorMakerOffsets(True, None, "MirrorSourceConnector")
    return replace(flow(), source=source, target=target, heartbeats=Heartbeats(True, 1.0), mirrormaker_offsets=wanted)


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def bugs(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == BUG]


def await_bugs(caplog: pytest.LogCaptureFixture, count: int) -> None:
    until(f"{count} logged", lambda: len(bugs(caplog)) == count)


def test_a_second_thread_begins_only_after_the_first_has_ended() -> None:
    runs: list[threading.Thread] = []
    release = threading.Event()

    def work(_: threading.Event) -> None:
        runs.append(threading.current_thread())
        release.wait()

    thread = FlowLeaderThread("one at a time", "a->b", work, pause=0.0)
    thread.start()
    until("it works", lambda: runs)
    for _ in range(3):
        thread.stop()
        thread.start()
    assert runs == threads("one at a time")
    release.set()
    until("it has ended", lambda: not runs[0].is_alive())
    release.clear()
    thread.start()
    until("another one works", lambda: len(runs) == 2)
    thread.stop()
    release.set()
    until("it has ended", lambda: not threads("one at a time"))


def test_a_defect_is_logged_once_and_the_work_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def work(stopping: threading.Event) -> None:
        calls.append(len(calls))
        if len(calls) <= 5:
            raise KeyError("the same" if len(calls) <= 3 else "another")
        stopping.wait()

    thread = FlowLeaderThread("defect", "a->b", work, pause=0.0)
    thread.start()
    until("it works", lambda: len(calls) == 6)
    thread.stop()
    until("it has ended", lambda: not threads("defect"))
    found = bugs(caplog)
    assert [str(record.exc_info[1]) for record in found if record.exc_info] == ["'the same'", "'another'"]
    assert all(record.__dict__["flow"] == "a->b" for record in found)


def test_nothing_is_told_after_stop() -> None:
    told: list[str] = []
    begun, release = threading.Event(), threading.Event()

    def work(stopping: threading.Event) -> None:
        thread.tell(lambda: told.append("before"))
        begun.set()
        stopping.wait()
        release.wait()
        thread.tell(lambda: told.append("after"))

    thread = FlowLeaderThread("tells", "a->b", work, pause=0.0)
    thread.start()
    assert begun.wait(10)
    thread.stop()
    release.set()
    until("it has ended", lambda: not threads("tells"))
    assert told == ["before"]


def test_stop_waits_for_what_is_being_told() -> None:
    told: list[str] = []
    telling, release = threading.Event(), threading.Event()

    def tell() -> None:
        telling.set()
        release.wait()
        told.append("told")

    def work(stopping: threading.Event) -> None:
        thread.tell(tell)
        stopping.wait()

    thread = FlowLeaderThread("waits", "a->b", work, pause=0.0)
    thread.start()
    assert telling.wait(10)
    threading.Timer(0.05, release.set).start()
    thread.stop()
    assert told == ["told"]
    until("it has ended", lambda: not threads("waits"))


def test_join_says_whether_the_thread_has_ended() -> None:
    release = threading.Event()
    thread = FlowLeaderThread("joined", "a->b", lambda _: release.wait(), pause=0.0)
    assert thread.join(0.0), "it never began"
    thread.start()
    thread.stop()
    assert not thread.join(0.01)
    release.set()
    assert thread.join(10.0)


class Intervals(FlowLeaderPart):
    """Notes with which settings it works."""

    def __init__(self, flow: Flow) -> None:
        super().__init__("intervals", flow)
        self.worked: list[float] = []
        self.release = threading.Event()

    @property
    def wanted(self) -> bool:
        return self._flow.heartbeats.enabled

    def _work(self, stopping: threading.Event) -> None:
        self.worked.append(self._flow.heartbeats.interval)
        stopping.wait()
        self.release.wait()


def test_a_part_begins_again_with_other_settings_once_it_has_ended() -> None:
    part = Intervals(replace(flow(), heartbeats=Heartbeats(True, 1.0)))
    part.start()
    until("it works", lambda: part.worked == [1.0])
    part.reconfigure(replace(flow(), heartbeats=Heartbeats(True, 2.0)))
    part.start()
    assert part.worked == [1.0], "the first thread has not ended"
    part.release.set()
    until("the first thread has ended", lambda: not threads("intervals primary->backup"))
    part.start()
    until("it works with the other ones", lambda: part.worked == [1.0, 2.0])
    part.reconfigure(replace(flow(), heartbeats=Heartbeats(False, 3.0)))
    until("it has ended", lambda: not threads("intervals primary->backup"))
    part.start()
    assert not threads("intervals primary->backup"), "it is not wanted any more"


def test_a_defect_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer = MirrorMakerOffsets(broken())
    writer.finish()
    assert not bugs(caplog), "it never began"
    writer.start()
    await_bugs(caplog, 1)
    writer.stop()
    writer.finish()
    assert len(bugs(caplog)) == 2


@pytest.mark.parametrize(
    "name", ["heartbeats", "groups", "map cleaner", "mirrormaker offsets", "configurations", "ACLs", "canary"]
)
def test_a_defect_of_what_a_leader_does_ends_none_for_good(name: str, caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[Round | ConfigRound | AclRound | CanaryStatus] = []
    sender, groups, cleaner = (
        HeartbeatSender(broken()),
        GroupRounds(broken(), rounds.append),
        MapCleaner(broken(), interval=0.0),
    )
    writer = MirrorMakerOffsets(broken())
    trusted = Trusted({"t": Topic("primary.t", "id", 1, 0)}, frozenset())
    configs = ConfigRounds(broken(), lambda: trusted, rounds.append)
    acls = AclRounds(replace(broken(), sync_acls=True), lambda: Trusted({}, frozenset()), rounds.append)
    canary = Canary(replace(broken(), canary=settings.Canary(True, 1.0)), list, rounds.append)
    start, stop = {
        "canary": (canary.start, canary.stop),
        "heartbeats": (sender.start, sender.stop),
        "groups": (groups.start, groups.stop),
        "configurations": (configs.start, configs.stop),
        "ACLs": (acls.start, acls.stop),
        "map cleaner": (cleaner.start, cleaner.stop),
        "mirrormaker offsets": (writer.start, writer.stop),
    }[name]
    for times in (1, 2):
        start()
        await_bugs(caplog, times)
        assert threads(f"{name} primary->backup"), "it tries again"
        stop()
        until("it has ended", lambda: not threads(f"{name} primary->backup"))
    assert not [each for each in rounds if isinstance(each, CanaryStatus) or each.has_ended]


def test_a_defect_while_positions_are_renewed_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewal = Renewal(flow())
    monkeypatch.setattr(renewal, "_flow", broken())  # its own client can't be made with it
    renewal.retired = {"orders": Topic("primary.orders", "an-id", partitions=1, initial_partitions=1)}
    renewal.renew()
    await_bugs(caplog, 1)
