"""The home of the driver's Spark, with the archive of classes if there is one: see prepare.py."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyspark

from mirror.spark import class_archive
from mirror.spark.java import cache_dir

ARCHIVE = "classes.jsa"


@dataclass(frozen=True, slots=True)
class SparkHome:
    """Where Spark is, and what its JVM is told because of that."""

    path: Path
    java_options: str = ""


def spark_home(scratch: Path) -> SparkHome:
    """$SPARK_HOME if it is set, else PySpark's own Spark, with the archive if there is one for this Java."""
    if own := os.environ.get("SPARK_HOME"):
        return SparkHome(Path(own))
    prepared = prepared_home()
    if (prepared / ARCHIVE).is_file():
        return SparkHome(prepared, " ".join(class_archive.taking(prepared / ARCHIVE)))
    return SparkHome(link(scratch / "spark"))


def prepared_home() -> Path:
    """The directory with the prepared Spark, for this Java and this PySpark. It need not exist."""
    key = class_archive.key(f"{pyspark.__version__}|{Path(pyspark.__file__).parent}")
    return cache_dir() / f"spark-{pyspark.__version__}-{key}"


def link(directory: Path) -> Path:
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
