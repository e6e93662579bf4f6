"""Kafka's own command line tools."""

from __future__ import annotations

import os

from mirror.demo.jvm import SHORT_LIVED
from mirror.demo.kafka_jars import TOOLS, kafka_jars
from mirror.spark.java import java


def command(main: str) -> list[str]:
    """What runs the tool of this Java class; its arguments follow."""
    # Without a logging back end, so that nothing but what the tool prints is on stdout.
    jars = os.pathsep.join([f"{kafka_jars()}/*", f"{kafka_jars(TOOLS)}/*"])
    return [java(), *SHORT_LIVED, "-cp", jars, main]
