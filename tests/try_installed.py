"""Check that an installed mirror works with real brokers, in several Pythons and with several Javas.

    python -m tests.try_installed MIRROR[@JAVA_HOME]... [--kafka VERSION]

MIRROR is the command of an installation, such as venv/bin/mirror. Each one checks the clusters, copies a load with
aborted transactions, is killed, goes on where it was, and drains: once record by record, and once with the data path
`auto`. JAVA_HOME is the Java of its Spark; without it, it is the one of this command's environment, which the two
brokers have in any case. --kafka runs another release of theirs; its jars come unchecked, unless mirror/demo/hashes has
their hashes. A line for each says what was run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import yaml

from mirror.demo.brokers import LocalCluster, start_together
from mirror.demo.kafka_jars import KAFKA_VERSION
from tests.harness import kafka_release, oracle
from tests.harness.configuration import DATA_PATHS, RECORDS
from tests.harness.installed import Program
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service

LEAST = 3_000  # records of a load


def paths(service: Service, pair: Pair) -> set[str]:
    """How each partition is copied, once that has been decided; empty before."""
    if pair.data_path == RECORDS:
        return {RECORDS}
    (flow,) = json.loads(service.get("/status")[1])["flows"]
    partitions = [each for topic in flow["topics"] for each in topic["partitions"]]
    said = {f"{each['path']} ({each['path_reason']})" if each["path_reason"] else each["path"] for each in partitions}
    # None: no task has told yet. `auto` begins with records, and gives a reason where it stays there.
    return set() if said & {None, RECORDS} else said


def copies(program: Program, pair: Pair, directory: Path) -> str:
    """One service from its start over its death to its drained end; says how it copied, and how long that took."""
    file = directory / f"{pair.alias}.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    topic, began = pair.topic("t", 3), time.monotonic()
    with Load(pair.source, {topic: 3}, rate=2_000, transaction=100, abort_every=3) as load:
        load.wait_for(LEAST)
        for command in ("validate", "check"):
            program.run(command, "-c", file)
        with Service(pair.settings(), directory, program=program) as service:
            service.wait_for("something is copied", lambda: oracle.count(pair.copied(topic)) > 0)
            service.kill()
        with Service(pair.settings(), directory, program=program) as service:
            by = service.wait_for("it is known how each partition is copied", lambda: paths(service, pair))
            load.stop()
            records = pair.await_same(topic)
            assert service.terminate() == 0 and not service.noise, service.tail()
        pair.assert_settled(topic)
    count, how, seconds = sum(map(len, records.values())), ", ".join(sorted(by)), time.monotonic() - began
    return f"{count} records the same after a kill, by {how}, {seconds:.0f} s"


def installed(said: str, directory: Path) -> tuple[Program, str]:
    """The program for an argument, and its versions."""
    command, _, home = said.partition("@")
    environment = {**os.environ, "MIRROR_CACHE": str(directory / "cache")}
    environment.pop("PYTHONPATH", None)
    if home:
        environment["JAVA_HOME"] = str(Path(home).absolute())
    program = Program((str(Path(command).absolute()),), environment, directory)
    java = f"{environment['JAVA_HOME']}/bin/java" if "JAVA_HOME" in environment else "java"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    python = Path(command).absolute().read_text().splitlines()[0].removeprefix("#!")
    asked = "import sys, pyspark; print(f'Python {sys.version.split()[0]}, Spark {pyspark.__version__}')"
    versions = subprocess.run([python, "-I", "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    return program, f"{program.run('--version').strip()}; {versions}; {version}"


def main() -> None:
    """Try each in turn, between the same two brokers."""
    parser = argparse.ArgumentParser(prog="python -m tests.try_installed", description=__doc__)
    parser.add_argument("mirrors", nargs="+", metavar="MIRROR[@JAVA_HOME]")
    parser.add_argument("--kafka", default=KAFKA_VERSION, help="version of the brokers")
    chosen = parser.parse_args()
    kafka_release.fetch(chosen.kafka)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        options = kafka_release.java_options(chosen.kafka)
        source, target = (
            LocalCluster(name, directory, java_options=options, version=chosen.kafka) for name in ("source", "target")
        )
        both = source, target
        start_together(*both)
        try:
            for number, said in enumerate(chosen.mirrors):
                program, versions = installed(said, directory)
                pair = Pair(both[0].bootstrap, both[1].bootstrap, f"tried{number}", f"tried{number}-")
                for each in map(pair.by, DATA_PATHS):
                    print(f"{versions}; Kafka {chosen.kafka}: {copies(program, each, directory)}", flush=True)
        finally:
            for cluster in both:
                cluster.stop()


if __name__ == "__main__":
    main()
