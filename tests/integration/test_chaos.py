"""A short set of the fault matrix. MIRROR_SEED=<seed> repeats the run that printed it.

`make chaos` plays all of it. What is left out here and takes minutes has modules of its own: test_decisions,
test_own_topics, and test_targets for timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.__main__ import Total, play
from tests.chaos.arena import Arena
from tests.chaos.rows import ROWS
from tests.harness.seeds import seed

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with Arena(tmp_path_factory.mktemp("arena")) as running:
        yield running
        assert running.service.terminate() == 0, running.service.tail()


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
    total = Total(" ".join(names))
    play(arena, [ROWS[name] for name in names], seed(), total)
    assert not total.violations, "\n".join([*total.violations, arena.service.tail()])
    assert total.rounds == len(names)
    assert total.records > 0 and total.samples_in_faults > 0
    assert total.group_samples > 0 or "recreated" in names, "of a topic that is made again, groups are not judged"
