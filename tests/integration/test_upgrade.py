"""From one release to the next under load: the new one takes over by fencing, and nothing is lost or doubled."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import dist
import pytest

from mirror import __version__
from tests.harness import installed, oracle, stacks
from tests.harness.follower import Follower
from tests.harness.installed import Program
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.samples.formats import FORMATS

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
RAISED = "99.0.0"
PARTITIONS = 4
# Formats by the beginning of the record's key.
CONTROL = {b"plan": "plan", b"intent": "intent", b"claim/": "claim", b"alive": "sign"}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Program]:
    """This release, installed from its wheel, and a later one that has another version and nothing else."""
    directory = tmp_path_factory.mktemp("releases")

    def release(version: str) -> Program:
        tree = directory / f"tree-{version}"
        shutil.copytree(ROOT / "mirror", tree / "mirror", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "config.example.yaml"):
            shutil.copy(ROOT / name, tree)
        file = tree / "mirror" / "__init__.py"
        file.write_text(file.read_text().replace(f'"{__version__}"', f'"{version}"'))
        _, wheel = dist.build(tree, directory, 1_790_000_000)
        program = installed.from_wheel(wheel, directory)
        assert program.run("--version").split()[-1] == version
        return program

    return release(__version__), release(RAISED)


def runs_from(service: Service, program: Program) -> bool:
    """True if the service and its tasks run this installation, and not the tree's."""
    ours, trees = f"{program.environment['PYTHONPATH']}/mirror/", f"{ROOT}/mirror/"
    own, *workers = (stacks.files(pid) for pid in (service.pid, *service.worker_pids()))
    tasks = {name for each in workers for name in each}
    assert not any(name.startswith(trees) for name in own | tasks)
    return any(name.startswith(ours) for name in own) and any(name.startswith(ours) for name in tasks)


def formats_on_the_target(pair: Pair) -> set[str]:
    """The formats of all records on mirror's own topics. Fails if one is not read as the format that it should have."""
    of_topic = {
        f"mirror-status.{pair.alias}.internal": "report",
        f"mirror-offset-map.{pair.alias}.internal": "offset-map",
        f"mm2-offset-syncs.{pair.alias}.internal": "offset-sync",
        f"mirror-canary.{pair.alias}.internal": "canary",
        f"{pair.alias}.heartbeats": "heartbeat",
        f"mirror-control.{pair.alias}.internal": None,
    }
    found = set()
    for topic, of in of_topic.items():
        for record in (each for records in oracle.read(pair.target, topic).values() for each in records if each.value):
            kind = of or next(name for key, name in CONTROL.items() if (record.key or b"").startswith(key))
            FORMATS[kind].read({"key": record.key, "value": record.value})
            found.add(kind)
    return found


def test_the_next_release_takes_over_under_load(pair: Pair, releases: tuple[Program, Program], tmp_path: Path) -> None:
    topic = pair.topic("upgraded", PARTITIONS)
    flow = {"heartbeats": {"enabled": True}, "canary": {"enabled": True}}
    old, new = (Service(pair.settings(flow), tmp_path, program=each) for each in releases)
    with Load(pair.source, {topic: PARTITIONS}, rate=300, transaction=50, abort_every=5) as load, old:
        assert old.find("mirror starts", version=__version__)
        old.wait_for("records copied", lambda: old.metric("mirror_source_records_total") > 300)
        old.wait_for("its tasks run it", lambda: runs_from(old, releases[0]))
        with ExitStack() as stack:
            remotes = [Follower(pair.target, pair.remote(topic), number) for number in range(PARTITIONS)]
            followers = [stack.enter_context(each) for each in remotes]
            old.wait_for("all partitions arrive", lambda: all(each.arrivals for each in followers))
            began = time.monotonic()
            stack.enter_context(new)
            assert new.find("mirror starts", version=RAISED)
            assert old.wait() == 3, old.tail()
            new.wait_for("records copied", lambda: new.metric("mirror_source_records_total") > 300)
            pauses = [each.largest_gap(began) for each in followers]
            print(f"upgrade under load: the longest pause of a partition was {max(pauses):.1f} s, of all {pauses}")
            new.wait_for("its tasks run it", lambda: runs_from(new, releases[1]))

            load.stop()
            pair.await_same(topic)
            assert new.terminate() == 0, new.tail()
            assert not new.noise
    pair.assert_settled(topic)
    always = {"plan", "intent", "claim", "sign", "report", "offset-map", "offset-sync", "canary", "heartbeat"}
    assert formats_on_the_target(pair) == always
