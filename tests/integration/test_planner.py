"""The source's reader on the driver, which Spark asks for a plan when a Spark epoch is over, and else lets be."""

from __future__ import annotations

from pathlib import Path

import yaml
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirror.config.load import load
from mirror.control.control_topics import PLAN_KEY, Claim, ControlWriter
from mirror.control.plan import Plan
from mirror.service_settings import Log
from mirror.spark.slice_tasks import Offset, SliceReader
from tests.harness import topics
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE

LEADER = "us"


def test_the_planner_fetches_nothing_between_two_plans(pair: Pair, tmp_path: Path) -> None:
    """What it had fetched would keep a thread for the broker that it is from, however often that restarts."""
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    flow = load(file, {}).flows[0]
    topics.create(pair.target, flow.control_topic)
    writer, reader = ControlWriter(flow), SliceReader(flow, LEADER, Log("info", "text"))

    def publish(plan: Plan) -> None:
        writer.write({PLAN_KEY: plan.encode()})

    def next_epoch(start: int) -> Offset:
        return reader.latestOffset({"spark_epoch": start}, ReadAllAvailable())

    publish(Plan(LEADER, 1, {}, (frozenset(),)))
    assert next_epoch(0) == {"spark_epoch": 1}
    assert reader._control is not None and not reader._control._consumer.assignment()
    writer.claim(Claim(0, "us"))
    publish(Plan(LEADER, 2, {}, (frozenset(),)))
    assert next_epoch(1) == {"spark_epoch": 2}
    publish(Plan(LEADER, 3, {}, (frozenset(),), stop=True))
    assert next_epoch(2) == {"spark_epoch": 2}
    reader.stop()
    writer.close(PATIENCE)
