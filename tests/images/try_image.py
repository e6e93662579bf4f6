"""Check that the project's image works with real brokers, as strictly as Kubernetes may run it.

    python -m tests.images.try_image IMAGE

looks at the image's labels, its user, and its bill of materials, which has to name what is in it. It starts the service
without any network: Spark runs, and the container becomes healthy.

Then it starts two local brokers, and `mirror validate`, `check` and `run` in containers of IMAGE on the machine's
network: as a user without rights, with a read-only root and a /tmp of its own. The run has to copy records, to go on
where it was after it is killed and started again, to become healthy, and to drain when it is stopped. The same on a
Spark cluster of containers of IMAGE, of which a worker is killed.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml

from mirror import __version__
from mirror.demo.brokers import LocalCluster, start_together
from mirror.spark.home import ARCHIVE
from tests.harness import oracle
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.waiting import until
from tests.images.containers import FILE, USERS, await_healthy, docker, ends, running, strict
from tests.images.try_cluster import copies_on_a_cluster

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
LABEL = re.compile(r'(org\.opencontainers\.image\.[a-z.]+)="([^"]*)"')
RECORDS = 5_000
BILL = "/usr/share/doc/mirror/sbom.cdx.json"
# One of each kind that the bill has to name: of PyPI, of Debian, a jar of Spark's.
EXTRAS = {"opentelemetry-exporter-otlp-proto-http", "aws-msk-iam-sasl-signer-python"}
NAMED = {"pyspark", "confluent-kafka", "tini", "spark-core_2.13"} | EXTRAS


def copies(image: str, user: str, pair: Pair, file: Path) -> None:
    """One service in a container, from its start over its death to its drained end."""
    file.write_text(yaml.safe_dump({**pair.settings(), "http": {"host": "127.0.0.1"}}))
    file.chmod(0o644)
    topic = pair.topic("t", 3)
    with Load(pair.source, {topic: 3}, rate=3_000, transaction=100, abort_every=3) as load:
        load.wait_for(RECORDS)
        for command in ("validate", "check"):
            print(docker("run", "--rm", *strict(user, file), image, command, "-c", FILE))
        began = time.monotonic()
        with running(image, strict(user, file)) as name:
            until("something is copied", lambda: oracle.count(pair.copied(topic)) > 0)
            print(f"first records after {time.monotonic() - began:.1f} s as {user}")
            # No process of it can say goodbye.
            docker("kill", "--signal", "KILL", name)
            load.stop()
            began = time.monotonic()
            docker("start", name)
            records = pair.await_same(topic)
            print(f"{oracle.count(records)} records the same {time.monotonic() - began:.1f} s after the kill")
            ends(name)
            pair.assert_settled(topic)


def starts_without_a_network(image: str, file: Path) -> None:
    """Spark runs its Python workers, and the service waits for its clusters. So nothing of that is downloaded."""
    settings = Pair("127.0.0.1:9", "127.0.0.1:10", "nowhere", "nowhere-").settings()
    file.write_text(yaml.safe_dump({**settings, "http": {"host": "127.0.0.1"}}))
    file.chmod(0o644)
    alone = strict(USERS[0], file, network="none")
    for command in (("check", "--help"), ("validate", "-c", FILE)):
        print(docker("run", "--rm", *alone, image, *command))
    began = time.monotonic()
    with running(image, alone) as name:
        until("a Python worker of Spark's", lambda: "pyspark.daemon" in docker("top", name))
        print(f"Spark runs {time.monotonic() - began:.1f} s after the start without a network")
        await_healthy(name)


def says_what_it_is(image: str) -> None:
    """It has the labels of the Dockerfile, and a user without rights, by number: Kubernetes can't look a name up.

    It also has the archive of classes, without which a build only warns.
    """
    config = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image))
    wanted = dict(LABEL.findall(DOCKERFILE.read_text()))
    wanted["org.opencontainers.image.version"] = __version__
    given = config.get("Labels") or {}
    # What begins with $ is an argument of the build.
    wrong = [each for each, text in wanted.items() if not given.get(each) or (text[0] != "$" and given[each] != text)]
    if wrong:
        sys.exit(f"the image lacks labels, or has other ones: {', '.join(wrong)}; it has {given}")
    docker("run", "--rm", "--entrypoint", "sh", image, "-c", f"ls $MIRROR_CACHE/*/{ARCHIVE}")
    user = config["User"].partition(":")[0]
    if not user.isdecimal() or int(user) == 0:
        sys.exit(f"the image's user is {user or 'root'}")


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
    says_what_it_is(image)
    names_its_contents(image)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        directory.chmod(0o755)
        starts_without_a_network(image, directory / "nowhere.yaml")
        both = LocalCluster("source", directory), LocalCluster("target", directory)
        start_together(*both)
        try:
            for number, user in enumerate(USERS):
                pair = Pair(both[0].bootstrap, both[1].bootstrap, f"image{number}", f"image{number}-")
                copies(image, user, pair, directory / f"mirror-{number}.yaml")
            copies_on_a_cluster(image, Pair(both[0].bootstrap, both[1].bootstrap, "on", "on-a-cluster-"), directory)
        finally:
            for cluster in both:
                cluster.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
