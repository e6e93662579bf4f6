"""Fetches Kafka's own jars once, for local brokers and MirrorMaker, and checks their hashes.

    python -m mirror.demo.kafka_jars [artifact[:version]...]

fetches the named artifacts, of KAFKA_VERSION unless a version is given.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from mirror.errors import SetupError
from mirror.spark.java import cache_dir, java
from mirror.text import duration

# Not 4.3.0 to 4.4.0: they skip a transaction's markers for a partition without a leader, as if it had been deleted
# (KRaftMetadataCache.getPartitionLeaderEndpoint), and the transaction hangs. Restarting a lone broker can cause it.
KAFKA_VERSION = "4.2.0"
BROKER = "kafka_2.13"
MIRROR_MAKER = "connect-mirror"
TOOLS = "kafka-tools"  # such as the console consumer; they run on the broker's class path
TIER = "kafka-storage-test"  # a remote store for tiered storage that is only a folder

_CLASSIFIERS = {TIER: ("kafka-storage", "test")}  # artifact and classifier, where an artifact's name has both
_ALONE = {TOOLS, TIER}  # fetched without what they need

# The expected hashes of each artifact's jars, in the format of sha256sum. For another Kafka: fetch it, inspect it, and
# write the files again.
HASHES = Path(__file__).parent / "hashes"

_FETCH_SECONDS = 900.0

_log = logging.getLogger(__name__)


def kafka_jars(
    artifact: str = BROKER, progress: Callable[[str], object] = _log.info, version: str = KAFKA_VERSION
) -> Path:
    """The folder with the jars of one of Kafka's artifacts and of all it needs, fetched with PySpark's Ivy if need be.

    `artifact` is BROKER (44 MB), MIRROR_MAKER (34 MB), or TOOLS or TIER (1 MB each, without what they need). Processes
    that ask at once fetch once. `progress` gets one line if there is something to fetch. Raises SetupError if there is
    no Java, the download fails, or a jar is not the one whose hash is in HASHES.
    """
    jars = cache_dir() / f"{artifact}-{version}"
    if jars.is_dir():
        return jars
    jars.parent.mkdir(parents=True, exist_ok=True)
    with jars.with_name(f"{jars.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            progress(f"fetching Kafka {version} ({artifact}) into {jars}, once: about half a minute")
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=jars.parent) as directory:
                _fetch(artifact, version, Path(directory))
                _compare(Path(directory) / "jars", HASHES / f"{jars.name}.sha256")
                (Path(directory) / "jars").rename(jars)
    return jars


def _fetch(artifact: str, version: str, directory: Path) -> None:
    """Fetch `artifact` of this version with Ivy into directory/jars, with its dependencies unless it is _ALONE."""
    ivy = next(_spark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise SetupError(f"no Ivy in {_spark_jars()}: install PySpark with pip")
    command = [java(), "-XX:-UsePerfData", f"-Duser.home={directory}", "-jar", str(ivy)]
    command += ["-cache", str(directory / "cache"), "-confs", "default"]
    command += ["-ivy", str(_module(artifact, version, directory / "ivy.xml"))]
    command += ["-retrieve", f"{directory}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    what = f"could not fetch {artifact} {version}"
    try:
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"{what} within {duration(_FETCH_SECONDS)}") from error
    if ended.returncode:
        said = [line.strip(": \t") for line in ended.stdout.splitlines()]
        relevant = [line for line in said if line and not line.startswith("USE VERBOSE")]
        raise SetupError(f"{what}; Ivy's last lines: {' | '.join(relevant[-3:])}")


def _module(artifact: str, version: str, file: Path) -> Path:
    """Write what Ivy is to fetch; Ivy's command line knows no classifiers."""
    name, classifier = _CLASSIFIERS.get(artifact, (artifact, None))
    chosen = f'<artifact name="{name}" type="jar" m:classifier="{classifier}"/>' if classifier else ""
    file.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="mirror" module="jars"/><dependencies>'
        f'<dependency org="org.apache.kafka" name="{name}" rev="{version}" conf="default"'
        f' transitive="{str(artifact not in _ALONE).lower()}">{chosen}</dependency></dependencies></ivy-module>'
    )
    return file


def _compare(jars: Path, hashes: Path) -> None:
    """Raise SetupError unless these are exactly the jars that `hashes` lists: an altered jar must not run."""
    listed = {name: digest for digest, name in map(str.split, hashes.read_text().splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.iterdir()}
    wrong = sorted(name for name in listed.keys() | found.keys() if listed.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        said = f"its SHA-256 is {found[name]}" if name in found else "it is missing"
        should = f"it should be {listed[name]}" if name in listed else "it does not belong there"
        raise SetupError(
            f"{name} is not the jar that {hashes.name} lists: {said}, {should}; the download was deleted. "
            "Try again; if the error stays, find out who has changed the jar"
        )


def _spark_jars() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise SetupError("PySpark is not installed in this Python")
    return Path(spark.origin).parent / "jars"


def classpath(artifact: str = BROKER, version: str = KAFKA_VERSION) -> str:
    """The Java class path for `artifact`. Kafka comes without a logging back end, so PySpark's goes first."""
    names = ("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl")
    logging_jars = [str(jar) for name in names for jar in _spark_jars().glob(f"{name}-[0-9]*.jar")]
    return os.pathsep.join([*logging_jars, f"{kafka_jars(artifact, version=version)}/*"])


if __name__ == "__main__":
    try:
        for argument in sys.argv[1:]:
            name, _, chosen = argument.partition(":")
            kafka_jars(name, lambda line: sys.stderr.write(f"{line}\n"), chosen or KAFKA_VERSION)
    except SetupError as error:
        sys.exit(str(error))
