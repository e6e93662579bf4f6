"""The home of the driver's Spark, and the archive of classes that halves the time in which it starts.

    python -m mirror.spark_home

makes the archive, once for each Java and PySpark on a machine: half a minute and 160 MB. A run takes it if it is there.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from mirror import class_archive
from mirror.errors import SetupError
from mirror.java import cache_dir

ARCHIVE = "classes.jsa"
FORMAT = "rehearsal"
REHEARSAL_SECONDS, DUMP_SECONDS = 120.0, 120.0


@dataclass(frozen=True, slots=True)
class SparkHome:
    """Where Spark is, and what its JVM is told because of that."""

    path: Path
    java_options: str = ""


def spark_home(scratch: Path) -> SparkHome:
    """$SPARK_HOME if it is set, else PySpark's own Spark, with the archive if there is one for this Java."""
    if own := os.environ.get("SPARK_HOME"):
        return SparkHome(Path(own))
    prepared = _prepared()
    if (prepared / ARCHIVE).is_file():
        return SparkHome(prepared, " ".join(class_archive.taking(prepared / ARCHIVE)))
    return SparkHome(_link(scratch / "spark"))


def _prepared() -> Path:
    key = class_archive.key(f"{pyspark.__version__}|{Path(pyspark.__file__).parent}")
    return cache_dir() / f"spark-{pyspark.__version__}-{key}"


def _link(directory: Path) -> Path:
    """PySpark's Spark without its zipped copy of PySpark, which the JVM would put first on the Python path.

    Nothing that is compiled can be kept in a zip: each of the six Python processes of a start would compile PySpark
    anew, 0.7 s of CPU.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars"):
        link = directory / part
        if not link.is_symlink():
            link.symlink_to(Path(pyspark.__file__).parent / part)
    return directory


class Rehearsal(DataSource):
    """Makes Spark do what an epoch makes it do, with nothing to copy."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """A row's."""
        return "slice INT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The reader."""
        return _Reader()


class _Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"epoch": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"epoch": 2}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(n) for n in range(2)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def prepare() -> None:
    """Make the archive if there is none. Raises SetupError if Java is missing or Spark does not start."""
    home = _prepared()
    if (home / ARCHIVE).is_file() or "SPARK_HOME" in os.environ:
        return
    sys.stderr.write(f"preparing Spark's start in {home}, once: about half a minute\n")
    part = _link(home) / f"{ARCHIVE}.{os.getpid()}"
    logging.disable(logging.CRITICAL)
    _rehearse(SparkHome(home, " ".join(class_archive.making(part))))
    if not part.is_file():
        raise SetupError(f"Java has made no archive of classes in {home}; mirror runs without, it only starts slower")
    part.rename(home / ARCHIVE)


def _rehearse(home: SparkHome) -> None:
    from mirror.settings import Log, Spark  # noqa: PLC0415  # which import this module
    from mirror.spark import SparkDriver  # noqa: PLC0415

    driver = SparkDriver(Spark("local[2]", {}), {}, "", Log("error", "text"), home=home)
    driver.warm_up()
    done = threading.Event()
    driver.session.dataSource.register(Rehearsal)
    query = driver.query(FORMAT, "rehearsal", lambda rows, _: done.set() if rows.collect() else None)
    done.wait(REHEARSAL_SECONDS)
    query.stop()
    driver.stop()
    driver.join(DUMP_SECONDS)


if __name__ == "__main__":
    try:
        prepare()
    except SetupError as error:
        sys.exit(str(error))
