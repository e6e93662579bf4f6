"""`exactly_once: false`: nothing is lost, and a crash doubles at most a batch of each partition."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from pathlib import Path

from tests.chaos.recorder import Recorder
from tests.checker.checker import check
from tests.harness import oracle
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE

BATCH = 200
CRASHES = 3


def test_workers_are_killed(pair: Pair, tmp_path: Path) -> None:
    rng = random.Random(os.environ.get("MIRROR_SEED"))
    with (
        Recorder(pair) as recorder,
        pair.service(tmp_path, {"exactly_once": False, "batch_max_records": BATCH}) as service,
    ):
        recorder.await_first()
        for _ in range(CRASHES):
            os.kill(rng.choice(service.wait_for("workers", service.worker_pids, PATIENCE)), signal.SIGKILL)
            recorder.await_progress()
        histories = recorder.finish()
        for history in histories:
            # Each worker had both partitions, or one of them.
            assert check(replace(history, crashes=CRASHES, batch=BATCH)) == []
            assert len(history.target) > BATCH
        assert service.terminate() == 0, service.tail()
    before = oracle.read(pair.target, recorder.remote)
    with pair.service(tmp_path, {"exactly_once": False}) as service:
        pair.produce(recorder.topic, *[])
        service.await_plan()
        assert service.terminate() == 0, service.tail()
    assert oracle.read(pair.target, recorder.remote) == before, "an orderly stop doubles nothing"
