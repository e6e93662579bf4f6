"""Makes the archive of classes with which the driver's Spark starts in half the time.

    python -m mirror.spark.prepare

makes it once for each Java and PySpark on a machine, which takes half a minute and 150 MB. A run uses it if it exists.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from mirror.errors import SetupError
from mirror.service_settings import Log, Spark
from mirror.spark import class_archive
from mirror.spark.home import ARCHIVE, SparkHome, link, prepared_home
from mirror.spark.session import SparkDriver

FORMAT = "rehearsal"
REHEARSAL_SECONDS, DUMP_SECONDS = 120.0, 120.0


class Rehearsal(DataSource):
    """A source without records, so that Spark loads the classes that a Spark epoch needs."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """The schema of a row."""
        return "slice INT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The reader of two partitions with one row each."""
        return _Reader()


class _Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"spark_epoch": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"spark_epoch": 2}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(n) for n in range(2)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def prepare() -> None:
    """Make the archive if there is none. Raises SetupError if Java is missing or too slow."""
    home = prepared_home()
    if (home / ARCHIVE).is_file() or "SPARK_HOME" in os.environ:
        return
    sys.stderr.write(f"preparing Spark's start in {home}, once: about half a minute\n")
    part = link(home) / f"{ARCHIVE}.{os.getpid()}"
    logging.disable(logging.CRITICAL)
    try:
        ended = _rehearse(SparkHome(home, " ".join(class_archive.writing(part))))
        if not ended or not part.is_file():
            why = f"Java has made no archive of classes in {home}"
            raise SetupError(f"{why}; mirror runs without it, but starts slower")
        part.rename(home / ARCHIVE)
    finally:
        part.unlink(missing_ok=True)


def _rehearse(home: SparkHome) -> bool:
    """True if the JVM has ended in time, so that its archive is whole."""
    driver = SparkDriver(Spark("local[2]", {}), {}, "", Log("error", "text"), home=home)
    driver.warm_up()
    done = threading.Event()
    driver.session.dataSource.register(Rehearsal)
    query = driver.query(FORMAT, "rehearsal", lambda rows, _: done.set() if rows.collect() else None)
    done.wait(REHEARSAL_SECONDS)
    query.stop()
    driver.stop()
    ended = driver.join(DUMP_SECONDS)
    if not ended:
        driver.kill()
    return ended


if __name__ == "__main__":
    try:
        prepare()
    except SetupError as error:
        sys.exit(str(error))
