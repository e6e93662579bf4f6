"""Which service says goodbye, and when: its last word on the control topic."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.signs import GOODBYE_KEY, SIGN_KEY
from mirror.errors import ClusterAway, FlowError, MirrorError, Superseded
from mirror.service import life_signs as module
from mirror.service.life_signs import LifeSigns, sign_of
from mirror.service.service import Service
from mirror.settings import Flow
from mirror.status.cluster_status import ClusterStatus
from tests.harness.waiting import until
from tests.unit.control.test_control_reader import flow  # noqa: F401  # fixture


class Writer:
    """A control topic that takes records while `accepts` is set."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes | None]] = []
        self.accepts = True

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        if not self.accepts:
            raise ClusterAway("backup", "no answer in time")
        self.written.extend(records.items())


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    made = Writer()
    monkeypatch.setattr(module, "ControlWriter", lambda _: made)
    monkeypatch.setattr(module, "SIGN_INTERVAL", 0.01)
    return made


@pytest.mark.parametrize("leaves", [True, False])
def test_a_goodbye_comes_after_the_end_of_the_work_and_after_every_sign(
    writer: Writer,
    flow: Flow,  # noqa: F811
    leaves: bool,
) -> None:
    stopping, ended = threading.Event(), threading.Event()
    signs = LifeSigns(flow, "us", lambda: True, ClusterStatus("primary"), stopping, lambda: ended.wait() and leaves)
    signs.start()
    until("signs", lambda: len(writer.written) > 1)
    stopping.set()
    signs.join(0.1)
    assert signs.is_alive() and GOODBYE_KEY not in dict(writer.written), "the tasks still run"
    ended.set()
    signs.join(10)
    assert not signs.is_alive()
    last = GOODBYE_KEY if leaves else SIGN_KEY
    assert writer.written[-1] == (last, sign_of("us"))
    assert [key for key, _ in writer.written].count(GOODBYE_KEY) == leaves


def test_a_goodbye_that_the_target_does_not_take_keeps_no_service_from_ending(
    writer: Writer,
    flow: Flow,  # noqa: F811
) -> None:
    stopping = threading.Event()
    writer.accepts = False
    stopping.set()
    signs = LifeSigns(flow, "us", lambda: True, ClusterStatus("primary"), stopping, lambda: True)
    signs.start()
    signs.join(10)
    assert not signs.is_alive() and not writer.written


TAKEN, BROKEN = Superseded("another service leads it now"), FlowError("flow a->b: bug")


def service(together: bool = True, told: bool = True, *failures: Exception | None) -> Any:
    """A service of two flows whose tasks have not ended yet."""
    runners = [SimpleNamespace(failure=failure, finished=threading.Event()) for failure in (*failures, None, None)[:2]]
    return SimpleNamespace(_together=together, _is_told=told, _runners=runners)


@pytest.mark.parametrize(
    ("stopped", "leaves"),
    [
        (service(), True),
        (service(together=False), False),  # it leads again as soon as it is started again
        (service(told=False), False),
        (service(True, True, BROKEN), False),
        (service(True, True, None, TAKEN), False),
    ],
    ids=["a standby", "no standby", "not told", "failed", "superseded"],
)
def test_only_a_standby_that_is_told_to_stop_says_goodbye(stopped: Any, leaves: bool) -> None:
    for runner in stopped._runners:
        runner.finished.set()
    assert Service._leaves(stopped) is leaves


def test_no_flow_is_left_before_all_of_them_have_finished() -> None:
    stopped, said = service(), list[bool]()
    asking = threading.Thread(target=lambda: said.append(Service._leaves(stopped)), daemon=True)
    asking.start()
    stopped._runners[0].finished.set()
    asking.join(0.1)
    assert asking.is_alive()
    stopped._runners[1].finished.set()
    asking.join(10)
    assert said == [True]


@pytest.mark.parametrize(
    ("stopped", "failure"),
    [
        (service(False, True), None),
        (service(False, True, TAKEN), None),
        (service(False, True, TAKEN, TAKEN), TAKEN),
        (service(False, True, TAKEN, BROKEN), BROKEN),
        (service(False, False, TAKEN, TAKEN), TAKEN),
        (service(True, False, TAKEN), TAKEN),
    ],
    ids=["told", "told, and one is lost", "told, and all are lost", "one has failed", "all are lost", "stood by"],
)
def test_a_service_that_leads_a_flow_until_it_is_told_to_stop_has_not_failed(
    stopped: Any, failure: MirrorError | None
) -> None:
    assert Service._failure(stopped) is failure
