"""A short set of the fault matrix. MIRROR_SEED=<seed> repeats the run that printed it.

`make chaos` plays all of it. What is left out here and takes minutes has modules of its own: test_decisions,
test_own_topics, and test_targets for timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.chaos.__main__ import Total, play
from tests.chaos.arena import Arena
from tests.chaos.rows import rows_for
from tests.harness.configuration import AUTO, RECORDS
from tests.harness.seeds import seed

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """The place for one data path: there is never more than one at a time."""
    with Arena(tmp_path_factory.mktemp("arena"), batches=request.param == AUTO) as running:
        yield running
        # The topic under load changes its path all the time, and is gone. But the first one is still there.
        replace(running.pair, data_path=request.param).assert_path(running.service)
        assert running.service.terminate() == 0, running.service.tail()


def played(arena: Arena, names: tuple[str, ...]) -> Total:
    """One recording, without a violation, in which each row was played and judged."""
    total = Total(" ".join(names))
    play(arena, [rows_for(arena.batches)[name] for name in names], seed(), total)
    assert not total.violations, "\n".join([*total.violations, arena.service.tail()])
    assert total.rounds == len(names)
    assert total.records > 0 and total.samples_in_faults > 0
    return total


@pytest.mark.parametrize("arena", [RECORDS], ids=[pytest.HIDDEN_PARAM], indirect=True)
@pytest.mark.parametrize(
    "names",
    [
        ("worker-at-step", "target-broker", "network", "held-back-end-txn"),
        pytest.param(("oversize",), marks=pytest.mark.slow),
        pytest.param(("recreated",), marks=pytest.mark.slow),
        pytest.param(("read-permission",), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_recording(arena: Arena, names: tuple[str, ...]) -> None:
    total = played(arena, names)
    assert total.group_samples > 0 or "recreated" in names, "of a topic that is made again, groups are not judged"


@pytest.mark.slow
@pytest.mark.parametrize("arena", [AUTO], ids=[pytest.HIDDEN_PARAM], indirect=True)
@pytest.mark.parametrize("names", [("worker-at-step", "answers-cut-off")], ids=" ".join)
def test_a_recording_with_whole_batches(arena: Arena, names: tuple[str, ...]) -> None:
    """With a fault that is meant for their client alone."""
    assert played(arena, names).group_samples > 0
