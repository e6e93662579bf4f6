"""What the driver is told: a local master has a thread for each flow and forgives failed tasks; and what wins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mirror.service_settings import Spark
from mirror.spark.security import AUTHENTICATE, BIND, ENCRYPT, REDACTION
from mirror.spark.session import HEARTBEATS, NETWORK_TIMEOUT, TASK_MAX_FAILURES, driver_conf, master, without_open_pages

SLOW_EVENTS = "spark.scheduler.listenerbus.logSlowEvent"
CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("configured", "flows", "threads"),
    [
        ("local", 1, 1),
        ("local", 3, 3),
        ("local[4]", 1, 4),
        ("local[2]", 5, 5),
        ("local[2,7]", 1, 2),
        ("local[2, 7]", 1, 2),
        ("local[*]", 1, CORES),
        ("local[*]", CORES + 1, CORES + 1),
        ("local[*,3]", 1, CORES),
    ],
)
def test_local(configured: str, flows: int, threads: int) -> None:
    assert master(configured, flows) == f"local[{threads},{TASK_MAX_FAILURES}]"


@pytest.mark.parametrize("configured", ["spark://a:7077", "k8s://https://a:6443", "yarn", "local-cluster[2,1,1024]"])
def test_others_are_left_alone(configured: str) -> None:
    assert master(configured, 3) == configured


def told(spark: Spark, submitted: Mapping[str, str]) -> dict[str, str]:
    return driver_conf(spark, submitted, 3, 7, Path("/tmp/run"))


def test_the_users_conf_wins_over_what_spark_submit_was_told_and_that_over_our_own() -> None:
    submitted = {"spark.app.name": "theirs", "spark.sql.shuffle.partitions": "8", "spark.speculation": "true"}
    conf = told(Spark("local[*]", {"spark.sql.shuffle.partitions": "9"}, frozenset()), submitted)
    assert (conf["spark.app.name"], conf["spark.sql.shuffle.partitions"]) == ("theirs", "9")
    assert conf["spark.ui.enabled"] == "false" and conf["spark.task.maxFailures"] == "7"
    assert conf["spark.speculation"] == "false", "would only fence"
    assert told(Spark("local", {SLOW_EVENTS: "true"}, frozenset()), {})[SLOW_EVENTS] == "false", "would show secrets"


def test_spark_submits_master_counts_and_is_protected() -> None:
    local = told(Spark("k8s://https://a:6443", {}, frozenset()), {"spark.master": "local[2]"})
    assert (local["spark.master"], local[BIND], local[AUTHENTICATE]) == ("local[3,7]", "127.0.0.1", "true")
    assert local["spark.local.dir"] == "/tmp/run"
    address = {"spark.master": "k8s://https://a:6443", BIND: "10.0.0.1"}
    cluster = told(Spark("local[*]", {}, frozenset()), address)
    assert (cluster["spark.master"], cluster[BIND], cluster[ENCRYPT]) == ("k8s://https://a:6443", "10.0.0.1", "true")
    assert "spark.local.dir" not in cluster
    assert told(Spark("yarn", {}, frozenset()), {})["spark.master"] == "yarn"


def test_lost_executors_do_not_end_the_driver_unless_somebody_says_so() -> None:
    key = "spark.executor.maxNumFailures"
    for url in ("k8s://https://a:6443", "yarn"):
        assert int(told(Spark(url, {}, frozenset()), {})[key]) >= 1_000_000
        assert told(Spark(url, {key: "5"}, frozenset()), {})[key] == "5"


@pytest.mark.parametrize("url", ["spark://a:7077", "k8s://https://a:6443", "yarn", "local-cluster[2,1,1024]"])
def test_a_vanished_machine_of_a_cluster_is_noticed_soon_unless_somebody_says_otherwise(url: str) -> None:
    def heartbeats(conf: Mapping[str, str], **submitted: str) -> dict[str, str]:
        found = told(Spark(url, conf, frozenset()), submitted)
        return {key: value for key, value in found.items() if key in (*HEARTBEATS, NETWORK_TIMEOUT)}

    assert heartbeats({}) == heartbeats({}, **{"spark.master": url}) == HEARTBEATS
    for key in (*HEARTBEATS, NETWORK_TIMEOUT):  # with the others of ours, Spark might not start
        assert heartbeats({key: "20"}) == heartbeats({}, **{key: "20"}) == {key: "20"}


def test_a_local_spark_that_was_suspended_does_not_give_itself_up() -> None:
    assert told(Spark("local[2]", {}, frozenset()), {}).keys().isdisjoint(HEARTBEATS)
    submitted = told(Spark("yarn", {}, frozenset()), {"spark.master": "local[2]"})
    assert submitted.keys().isdisjoint(HEARTBEATS)


def test_the_pages_of_a_submitted_local_spark_are_not_on_the_network(caplog: pytest.LogCaptureFixture) -> None:
    shown = {"spark.master": "local[2]", "spark.ui.enabled": "TRUE"}
    for environment in ({}, {"SPARK_LOCAL_IP": ""}):
        assert without_open_pages(shown, environment) == {**shown, "spark.ui.enabled": "false"}
        assert "start spark-submit with SPARK_LOCAL_IP=127.0.0.1" in caplog.text
        caplog.clear()
    for conf in (shown, {**shown, "spark.ui.enabled": "false"}, {**shown, "spark.master": "yarn"}):
        environment = {"SPARK_LOCAL_IP": "10.0.0.1"} if conf is shown else {}  # where somebody wants them
        assert without_open_pages(conf, environment) == conf
    assert not caplog.text


def test_what_spark_submit_hides_stays_hidden() -> None:
    conf = told(Spark("local", {"spark.note": "x"}, frozenset({"spark.note"})), {REDACTION: "theirs"})
    assert "theirs" in conf[REDACTION] and "note" in conf[REDACTION]
