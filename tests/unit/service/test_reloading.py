"""The thread that reads the configuration again: what it logs, what it hands on, and that nothing ends it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror import service_settings
from mirror.errors import ConfigError
from mirror.logs import Repetitions
from mirror.service import reloading
from mirror.service.reloading import LISTED_MAX, Hangups, Reloader
from mirror.service_settings import Reloaded, Settings
from mirror.status.configuration import ConfigurationStatus
from mirror.text import BUG
from tests.harness.waiting import until
from tests.unit.test_naming import flow

IN_FORCE = Settings(
    (flow(),),
    service_settings.Spark("local[*]", {}),
    service_settings.Http("localhost", 0),
    service_settings.Metrics("partition", service_settings.Otlp(None, 30.0, {})),
    service_settings.Log("info", "text"),
    1.0,
)


class Files:
    """A configuration whose next reload is what the test says."""

    def __init__(self) -> None:
        self.changed = False
        self.next: Reloaded | Exception = Reloaded(IN_FORCE, (), ())
        self.reloads = 0

    def has_changed(self) -> bool:
        changed, self.changed = self.changed, False
        return changed

    def reload(self) -> Reloaded:
        self.reloads += 1
        if isinstance(self.next, Exception):
            raise self.next
        return self.next


class Fixture:
    def __init__(self) -> None:
        self.files, self.status = Files(), ConfigurationStatus()
        self.applied: list[Settings] = []
        self.hangups = Hangups()
        self.reloader = Reloader(self.files, self.hangups, self.status, self.applied.append)

    def ask(self) -> None:
        wanted = self.files.reloads + 1
        self.hangups.count += 1
        until("a reload", lambda: self.files.reloads == wanted)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fixture]:
    monkeypatch.setattr(reloading, "LOOK_INTERVAL", 0.01)
    level = logging.getLogger("mirror").level
    fixture = Fixture()
    fixture.reloader.start()
    yield fixture
    fixture.reloader.stop()
    fixture.reloader.join(10)
    assert not fixture.reloader.is_alive()
    logging.getLogger("mirror").setLevel(level)


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.levelno == level]


def test_it_reloads_when_asked_and_when_a_file_has_changed(service: Fixture) -> None:
    service.ask()
    service.files.changed = True
    until("another one", lambda: service.files.reloads == 2)
    until("both are applied", lambda: len(service.applied) == 2)


def test_an_invalid_configuration_is_logged_each_time_and_nothing_is_applied(
    service: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    problems = [f"a.yaml:{number}: wrong" for number in range(LISTED_MAX + 2)]
    service.files.next = ConfigError(problems)
    for times in (1, 2):
        service.ask()
        until("it is logged", lambda times=times: len(logged(caplog, logging.ERROR)) == times)  # type: ignore[misc]
    said = logged(caplog, logging.ERROR)[-1]
    assert said["msg"] == "configuration not reloaded, the old settings stay in force"
    assert said["reason"].startswith("a.yaml:0: wrong; a.yaml:1: wrong;")
    assert said["reason"].endswith("and 2 more problems") and not said["exc_info"]
    repetitions = Repetitions(lambda: 0.0)
    assert all(repetitions.filter(r) for r in caplog.records), "an operator waits for the answer to each signal"
    until("it is told", lambda: service.status.view.problem == said["reason"])
    assert not service.applied
    service.files.next = Reloaded(IN_FORCE, (), ())
    service.ask()
    until("it is told", lambda: not service.status.view.problem)


def test_what_changed_and_what_waits_is_named(service: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service.files.next = Reloaded(IN_FORCE, ("a->b: topics", "log.level"), ("http.port", "spark.master"))
    service.ask()
    until("it is told", lambda: service.status.view.waiting)
    (info,) = (
        until("it is logged", lambda: [r for r in logged(caplog, logging.INFO) if r["msg"] == "configuration reloaded"])
        or []
    )
    assert info["changed"] == "a->b: topics; log.level"
    (warning,) = until("it is logged", lambda: logged(caplog, logging.WARNING)) or []
    assert warning["msg"] == "these keys changed, and take effect at the next start"
    assert warning["keys"] == "http.port; spark.master"


def test_a_defect_does_not_end_it(service: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    service.files.next = ZeroDivisionError()
    service.ask()
    until("it is logged", lambda: any(record.getMessage() == BUG for record in caplog.records))
    service.files.next = Reloaded(IN_FORCE, (), ())
    service.ask()
    until("it goes on", lambda: service.applied)


def test_a_hangup_does_not_end_a_service_that_still_reads_its_files(tmp_path: Path) -> None:
    pipe = tmp_path / "mirror.yaml"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-m", "mirror", "run", "-c", pipe], stderr=subprocess.PIPE) as process:
        with pipe.open("w") as file:  # waits until the service reads
            process.send_signal(signal.SIGHUP)
            file.write("clusters: {}\n")
        assert "clusters" in process.communicate(timeout=30)[1].decode()
    assert process.returncode == 2, "ended by its configuration, not by the signal"
