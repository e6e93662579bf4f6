"""What somebody without credentials gets from Spark's ports, and what Spark shows of the configuration: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.demo.brokers import free_port
from tests.harness import processes
from tests.harness.command import answer
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.spark_stranger import given_away, listening
from tests.harness.together import together
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow

PASSWORD = f"password-{uuid.uuid4().hex}"
HIDDEN = f"hidden-{uuid.uuid4().hex}"


def running(pair: Pair, directory: Path, **conf: str) -> Service:
    """A service that has a password, though its clusters ask for none; it has a record to copy."""
    pair.produce(pair.topic("t"), Made(None, b"one"))
    settings = pair.settings(spark={"master": "local[1]", "conf": conf})
    settings["clusters"][pair.alias]["sasl.password"] = PASSWORD
    return Service(settings, directory)


def test_what_a_stranger_gets(pair: Pair, tmp_path: Path) -> None:
    together(
        partial(the_service_listens_on_its_own_port_alone, pair.other("service"), tmp_path),
        partial(without_authentication_the_password_can_be_read_and_that_is_said, pair.other("open"), tmp_path),
        partial(a_job_listens_on_loopback_and_shows_nothing_that_a_reference_gave, pair.other("job"), tmp_path),
    )


def the_service_listens_on_its_own_port_alone(pair: Pair, tmp_path: Path) -> None:
    with running(pair, tmp_path) as service:
        service.wait_for("copied", lambda: service.metric("mirror_source_records_total") == 1)
        sockets = listening(service.processes())
        ours = [socket for socket in sockets if socket.pid == service.jvm_pid]
        assert len(ours) >= 3, "the JVM's are among them"
        assert [socket for socket in sockets if not socket.is_loopback and socket.port != service.port] == []
        assert given_away(ours, PASSWORD) == (False, False)
        assert not [event for event in service.events if "spark." in event["msg"]]
        assert service.terminate() == 0, service.tail()


def without_authentication_the_password_can_be_read_and_that_is_said(pair: Pair, tmp_path: Path) -> None:
    """The same stranger; so it is the authentication that keeps it out."""
    with running(pair, tmp_path, **{"spark.authenticate": "false"}) as service:
        service.wait_for("copied", lambda: service.metric("mirror_source_records_total") == 1)
        sockets = [socket for socket in listening(service.processes()) if socket.pid == service.jvm_pid]
        assert all(socket.is_loopback for socket in sockets)
        service.wait_for("a stranger reads it", lambda: given_away(sockets, PASSWORD) == (True, True))
        (warning,) = [event["msg"] for event in service.events if "spark." in event["msg"]]
        assert warning.startswith("spark.authenticate is false: whoever reaches Spark's ports can read")
        said = answer("check", "-c", service.file)["checks"]
        (found,) = [check for check in said if check["what"] == "Spark's protection"]
        assert (found["outcome"], found["said"]) == ("WARNING", warning.rpartition("; ")[0])
        assert service.terminate() == 0, service.tail()


# What `mirror verify` runs on, held open until its input ends. The function of its job has what the job needs to know.
HELD = """
import sys
from functools import partial
from pathlib import Path
from mirror.config.load import load
from mirror.commands.verify.spark_jobs import SparkJobs

settings = load(Path(sys.argv[1]))
with SparkJobs(settings) as jobs:
    jobs.map(partial(max, settings.flows[0].source.properties["sasl.password"]), [""], lambda done: None)
    context = jobs._driver.session.sparkContext
    for key in settings.spark.references:
        value = settings.spark.conf[key]
        read = context._jvm.java.lang.System.getProperty(key)  # from the file, before there was a context
        print(key, read == value, context.getConf().get(key) == value)
    print("ready", flush=True)
    sys.stdin.read()
"""
# By what they are for. No name looks like a secret's, and each has what a properties file needs marks for.
KEYS = ("spark.mirror.note", "spark.hadoop.mirror.note", "spark.metrics.conf.mirror.sink.note", "spark.sql.mirror.note")
VALUE = "${env:MIRROR_TEST_HIDDEN} = \\ : # \n\u00fc\U0001f600"


@contextmanager
def held(directory: Path, settings: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Gives the mark of its processes and what it has printed."""
    file, mark = directory / "mirror.yaml", uuid.uuid4().hex
    file.write_text(yaml.safe_dump(settings))
    child = subprocess.Popen(
        [sys.executable, "-c", HELD, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, processes.MARK: mark, "MIRROR_TEST_HIDDEN": HIDDEN},
        start_new_session=True,
    )
    try:
        assert child.stdout is not None and child.stdin is not None
        printed = []
        for line in child.stdout:
            printed.append(line.strip())
            if printed[-1] == "ready":
                break
        yield mark, printed
        child.stdin.close()
        assert child.wait(PATIENCE) == 0
    finally:
        processes.kill_marked(mark)
        child.wait()


def a_job_listens_on_loopback_and_shows_nothing_that_a_reference_gave(pair: Pair, tmp_path: Path) -> None:
    """The value arrives, but it is on no command line, on no page, and not in the event log."""
    events, ui = tmp_path / "events", free_port()
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": str(ui),
        "spark.mirror.plain": "plain-to-see",
        **dict.fromkeys(KEYS, VALUE),
    }
    settings = pair.settings(spark={"master": "local[1]", "conf": conf})
    settings["clusters"][pair.alias]["sasl.password"] = PASSWORD
    with held(tmp_path, settings) as (mark, printed):
        assert sorted(printed[:-1]) == sorted(f"{key} True True" for key in KEYS)
        found = processes.marked(mark)
        sockets = listening(found)
        assert ui in {socket.port for socket in sockets}
        assert all(socket.is_loopback for socket in sockets)
        assert given_away([socket for socket in sockets if socket.port != ui], PASSWORD) == (False, False)
        shown = {f"command line of {process.pid}": " ".join(process.cmdline()) for process in found}
        for page in ("environment/", "api/v1/applications"):
            shown[page] = fetched(ui, page)
        (application,) = yaml.safe_load(shown["api/v1/applications"])
        shown["API"] = fetched(ui, f"api/v1/applications/{application['id']}/environment")
    assert "plain-to-see" in shown["API"], "which the page is filled from"
    logged = {str(file): file.read_text() for file in events.rglob("*") if file.is_file()}
    assert any("plain-to-see" in text for text in logged.values()), "there is an event log"
    shown |= logged
    assert [where for where, text in shown.items() if HIDDEN in text or PASSWORD in text] == []


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE) as page:
        return str(page.read().decode())
