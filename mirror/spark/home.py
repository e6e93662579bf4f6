"""Finds the Spark that the driver uses, and its archive of classes if prepare.py has made one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

from mirror.spark import class_archive
from mirror.spark.java import cache_dir

ARCHIVE = "classes.jsa"

# Spark's library for machine learning. From its jar each session would load a thousand classes, to offer its functions.
LEFT_OUT = "spark-mllib_"


@dataclass(frozen=True, slots=True)
class SparkHome:
    """The directory of Spark, and the Java options that go with it."""

    path: Path
    java_options: str = ""


def spark_home(run_directory: Path | None = None) -> SparkHome:
    """The Spark in $SPARK_HOME if it is set, else PySpark's own, with the archive if there is one for this Java.

    Without an archive it is linked in `run_directory`, which is our own, or in a new directory of ours: what another
    user of the machine may have made would be run.
    """
    if own := os.environ.get("SPARK_HOME"):
        return SparkHome(Path(own))
    prepared = prepared_home()
    if (prepared / ARCHIVE).is_file():
        return SparkHome(prepared, " ".join(class_archive.reading(prepared / ARCHIVE)))
    ours = run_directory or Path(tempfile.mkdtemp(prefix="mirror-spark-"))
    return SparkHome(link(ours / "spark"))


def prepared_home() -> Path:
    """The directory of the prepared Spark for this Java and this PySpark. It need not exist."""
    key = class_archive.key(f"{pyspark.__version__}|{Path(pyspark.__file__).parent}|{LEFT_OUT}")
    return cache_dir() / f"spark-{pyspark.__version__}-{key}"


def link(directory: Path) -> Path:
    """Link to PySpark's Spark in `directory`, without what only makes each start slower.

    Its zipped copy of PySpark is missing: the JVM would put the zip first on the Python path. Python can't keep
    compiled modules in a zip, so each of the six Python processes of a start would compile PySpark again: 0.7 s of CPU.
    """
    spark = Path(pyspark.__file__).parent
    (directory / "jars").mkdir(parents=True, exist_ok=True)
    jars = [f"jars/{jar.name}" for jar in (spark / "jars").glob("*.jar") if not jar.name.startswith(LEFT_OUT)]
    for part in ("bin", *jars):
        with contextlib.suppress(FileExistsError):  # of the prepared Spark, which two may make at the same time
            (directory / part).symlink_to(spark / part)
    return directory
