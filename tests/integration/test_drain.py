"""Ending in order under load."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pyspark
import pytest

import mirror
from tests.harness import oracle, processes
from tests.harness.configuration import LONG_DRAIN
from tests.harness.installed import Program
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.spark_stranger import given_away, listening
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.long

PASSWORD = "password-of-an-application"
APPLICATION = Path(mirror.__file__).with_name("__main__.py")
# A JVM never hears a signal that it was started to ignore, as a shell has its background jobs ignore SIGINT.
HEARS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
UNCLEAN = re.compile(r"Traceback|Exception|at org\.apache|at java\.|Error:")


def await_copying(service: Service, timeout: float = PATIENCE) -> None:
    service.wait_for("records copied", lambda: service.metric("mirror_source_records_total") > 400, timeout)


def end(service: Service, how: signal.Signals) -> None:
    assert service.terminate(how) == 0, service.tail()
    assert not [line for line in service.lines if UNCLEAN.search(line)], service.tail()
    assert not service.noise
    assert service.find("stopped", drained="true"), service.tail()


@pytest.mark.both_paths
def test_a_drain_under_load_leaves_nothing_open_and_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("drained", 4)
    counts = []
    with Load(pair.source, {topic: 4}, rate=200) as load:
        for how in (signal.SIGTERM, signal.SIGINT):
            with pair.service(tmp_path, drain_timeout=LONG_DRAIN) as service:
                await_copying(service)
                end(service, how)
            assert not oracle.hanging(pair.target, pair.remote(topic)), how
            counts.append(oracle.count(pair.copied(topic)))
            load.wait_for(load.counts.total + 100)
        load.stop()
    assert 0 < counts[0] < counts[1]
    with pair.service(tmp_path, drain_timeout=LONG_DRAIN) as service:
        pair.await_same(topic)
        # Idle partitions drain too.
        end(service, signal.SIGTERM)
    pair.assert_settled(topic)


def submitted(file: Path) -> tuple[Program, Program]:
    """`mirror` as the application of a spark-submit: started by a person, and as Spark starts a driver in a pod.

    Both ask Spark to log slow events, with all settings. mirror has to keep that from happening.
    """
    slow = "spark.scheduler.listenerbus.logSlowEvent"
    asked = {slow: "true", f"{slow}.threshold": "1ms"}
    # With no Python in PYSPARK_DRIVER_PYTHON, Spark looks for no installed data sources: a quicker start.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": "none"}
    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.master": "local[2]"}
    local |= asked
    file.write_text("".join(f"{key} {value}\n" for key, value in local.items()))
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += ["--driver-java-options", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"]  # so does that
    submit += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    submit += [part for key, value in asked.items() for part in ("--conf", f"{key}={value}")]
    told = ["--properties-file", str(file), "--class", "org.apache.spark.deploy.PythonRunner"]
    return (
        Program([*submit, "--deploy-mode", "client", str(APPLICATION)], environment),
        Program(
            [sys.executable, "-c", HEARS, "-m", "mirror", "driver", *told, f"local://{APPLICATION}"],
            {**environment, "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1"},
        ),
    )


def test_the_application_of_a_spark_submit_drains_when_its_jvm_is_to_end(pair: Pair, tmp_path: Path) -> None:
    topic = pair.topic("submitted", 4)
    # spark-submit says which master.
    hidden = {"spark.mirror.note": "${env:MIRROR_TEST_HIDDEN}"}
    settings = pair.settings(spark={"conf": hidden}, drain_timeout=LONG_DRAIN)
    settings["clusters"][pair.alias]["sasl.password"] = PASSWORD
    by_hand, in_a_pod = submitted(tmp_path / "spark.properties")
    with Load(pair.source, {topic: 4}, rate=200) as load:
        with Service(settings, tmp_path, {"MIRROR_TEST_HIDDEN": PASSWORD}, program=by_hand) as service:
            await_copying(service, 2 * PATIENCE)
            assert service.pid == service.jvm_pid, "the JVM gets the signal"
            (python,) = processes.children(psutil.Process(service.jvm_pid), str(APPLICATION))
            sockets = listening(service.processes())
            ours = [socket for socket in sockets if socket.pid == service.jvm_pid]
            assert len(ours) >= 3 and all(socket.is_loopback for socket in sockets)
            assert given_away(ours, PASSWORD) == (False, False)
            assert not any(processes.command_holds(each, PASSWORD) for each in service.processes())
            assert not [line for line in service.lines if PASSWORD in line]
            assert service.terminate() == 0, service.tail()
            assert service.find("stopped", drained="true") and not processes.is_alive(python)
        assert not oracle.hanging(pair.target, pair.remote(topic))
        copied = oracle.count(pair.copied(topic))
        load.wait_for(load.counts.total + 100)
        load.stop()
    with Service(settings, tmp_path, {"MIRROR_TEST_HIDDEN": PASSWORD}, program=in_a_pod) as service:
        pair.await_same(topic, 2 * PATIENCE)
        assert service.terminate(signal.SIGINT) == 0, service.tail()
        assert service.find("stopped", drained="true")
    assert 0 < copied < oracle.count(pair.copied(topic))
    pair.assert_settled(topic)
