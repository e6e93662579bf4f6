"""A target that is far away, over a link on which packets come late, and some of them never."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness.command import answer
from tests.harness.configuration import DATA_PATHS
from tests.harness.link import Link
from tests.harness.load import Load
from tests.harness.pair import Pair
from tests.harness.programs import program, skip
from tests.harness.together import together

pytestmark = pytest.mark.slow

ROUND_TRIP, LOSS = 0.08, 0.01  # seconds; share of the packets


@dataclass(frozen=True)
class Far:
    """The pair as a service meets it, and as somebody does who is near the target."""

    pair: Pair
    near: Pair


@pytest.fixture
def far(source_cluster: LocalCluster, prefix: str, tmp_path: Path) -> Iterator[Far]:
    program("ip", "iproute2")
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.W_OK):
        skip("it takes root, and /dev/net/tun", could_run=False)
    link, target = Link(tmp_path / "link.log"), LocalCluster("far", tmp_path)
    with link.hosts(target), target, link.carries(ROUND_TRIP, LOSS):
        pair = Pair(source_cluster.bootstrap, link.to(target), "far", prefix)
        yield Far(pair, replace(pair, target=target.bootstrap))


def test_copies_are_exact_and_check_tells_what_makes_them_slow(far: Far, tmp_path: Path) -> None:
    together(*(partial(copies_are_exact, far, path, tmp_path) for path in DATA_PATHS))
    service = far.pair.service(tmp_path)
    told = {each["said"].split(" takes")[0]: each for each in found(answer("check", "-c", service.file))}
    near, away = told[f"a round trip to {far.pair.alias}"], told["a round trip to backup"]
    assert near["outcome"] == "OK"
    assert away["outcome"] == "WARNING"
    assert "socket.receive.buffer.bytes is 102400" in away["said"]
    assert "socket.receive.buffer.bytes to -1" in away["remedy"]


def found(said: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [each for each in said["checks"] if each["what"] == "distance"]


def copies_are_exact(far: Far, path: str, directory: Path) -> None:
    pair, near = far.pair.other(path).by(path), far.near.other(path).by(path)
    topic = near.topic("copied", 2)
    with pair.service(directory) as service:

        def copied() -> float:
            return service.metric("mirror_source_records_total")

        with Load(near.source, {topic: 2}, rate=200) as load:
            service.wait_for("copied", lambda: copied() > 500)
            service.kill_workers()
            before = copied()
            service.wait_for("copied again", lambda: copied() > before + 500)
            load.stop()
        near.await_same(topic)
        near.assert_path(service)
        assert service.terminate() == 0, service.tail()
    near.assert_settled(topic)
