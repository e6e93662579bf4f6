"""Check that the project's image works with real brokers, as strictly as Kubernetes may run it.

    python -m tests.images.try_image IMAGE

starts two local brokers, and `mirror validate`, `check` and `run` in containers of IMAGE on the machine's network: as a
user without rights, with a read-only root and a /tmp of its own. The run has to copy records, to go on where it was
after it is killed and started again, to become healthy, and to drain when it is stopped. The image's bill of materials
has to name what is in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml

from mirror.demo.brokers import LocalCluster, start_together
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.waiting import until

RECORDS = 5_000
BILL = "/usr/share/doc/mirror/sbom.cdx.json"
# One of each kind that the bill has to name: of PyPI, of Debian, a jar of Spark's.
EXTRAS = {"opentelemetry-exporter-otlp-proto-http", "aws-msk-iam-sasl-signer-python"}
NAMED = {"pyspark", "confluent-kafka", "tini", "spark-core_2.13"} | EXTRAS
FILE = "/etc/mirror/mirror.yaml"
# The last one of the users has no name in the image, such as one that OpenShift makes up.
USERS = ("10001:10001", "123456:0")


def docker(*arguments: str) -> str:
    """What the command prints; ends the program with all that it says if it fails."""
    ended = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"docker {' '.join(arguments)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def strict(user: str, file: Path) -> Sequence[str]:
    """The options of `docker run`: nothing may be written but /tmp, and no right be gained."""
    locked = ["--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,exec,mode=1777", "--cap-drop", "ALL"]
    network = ["--network", "host", "--security-opt", "no-new-privileges"]
    return [*locked, *network, "--user", user, "--volume", f"{file}:{FILE}:ro"]


def copies(image: str, user: str, pair: Pair, file: Path) -> None:
    """One service in a container, from its start over its death to its drained end."""
    file.write_text(yaml.safe_dump({**pair.settings(), "http": {"host": "127.0.0.1"}}))
    file.chmod(0o644)
    topic = pair.topic("t", 3)
    with Load(pair.source, {topic: 3}, rate=3_000, transaction=100, abort_every=3) as load:
        load.wait_for(RECORDS)
        for command in ("validate", "check"):
            print(docker("run", "--rm", *strict(user, file), image, command, "-c", FILE))
        name, began = f"mirror-{uuid.uuid4().hex[:6]}", time.monotonic()
        docker("run", "--detach", "--name", name, *strict(user, file), image)
        try:
            until("something is copied", lambda: oracle.count(pair.copied(topic)) > 0)
            print(f"first records after {time.monotonic() - began:.1f} s as {user}")
            # No process of it can say goodbye.
            docker("kill", "--signal", "KILL", name)
            load.stop()
            began = time.monotonic()
            docker("start", name)
            records = pair.await_same(topic)
            print(f"{sum(map(len, records.values()))} records the same {time.monotonic() - began:.1f} s after the kill")
            ends(name)
            pair.assert_settled(topic)
        except BaseException:
            print(docker("logs", "--tail", "20", name))
            raise
        finally:
            docker("rm", "--force", "--volumes", name)


def ends(name: str) -> None:
    """The container is healthy, and ends in order when it is stopped."""
    health = ("inspect", "--format", "{{.State.Health.Status}}", name)
    until("healthy", lambda: docker(*health).strip() == "healthy")
    docker("stop", "--time", "30", name)
    code = docker("inspect", "--format", "{{.State.ExitCode}}", name).strip()
    if code != "0":
        sys.exit(f"the run ended with {code}:\n{docker('logs', '--tail', '20', name)}")


def names_its_contents(image: str) -> None:
    """The bill of materials has a version for each thing that it names, and what we know to be there."""
    bill = json.loads(docker("run", "--rm", "--entrypoint", "cat", image, BILL))
    versions = {each["name"]: each.get("version") for each in bill["components"]}
    kinds = Counter(each.get("purl", "").partition("/")[0] for each in bill["components"])
    print(f"the bill of materials names {dict(kinds)}")
    if missing := NAMED - {name for name, version in versions.items() if version}:
        sys.exit(f"the bill of materials lacks {', '.join(sorted(missing))}")


def main(image: str) -> None:
    """Try the image with each of USERS."""
    names_its_contents(image)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        directory.chmod(0o755)
        both = LocalCluster("source", directory), LocalCluster("target", directory)
        start_together(*both)
        try:
            for number, user in enumerate(USERS):
                pair = Pair(both[0].bootstrap, both[1].bootstrap, f"image{number}", f"image{number}-")
                copies(image, user, pair, directory / f"mirror-{number}.yaml")
        finally:
            for cluster in both:
                cluster.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
