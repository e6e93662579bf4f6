"""When a step of a transaction is reached; it can be meant on the batch path only."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.failpoints import sitecustomize
from tests.failpoints.arm import Failpoints


async def nothing() -> None:
    """What is patched."""


def test_a_step_of_batches_is_not_reached_by_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failpoints = Failpoints(tmp_path)
    monkeypatch.setattr(sitecustomize, "FOLDER", Path(failpoints.environment["MIRROR_FAILPOINTS"]))
    failpoints.arm("RAISE", "before-it-of-batches")
    sitecustomize._around(lambda: None, "before-it", None)()
    with pytest.raises(RuntimeError, match="before-it-of-batches"):
        asyncio.run(sitecustomize._around_async(nothing, "before-it", None)())
    assert failpoints.wait("before-it-of-batches")


def test_batches_reach_each_step_by_its_usual_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failpoints = Failpoints(tmp_path)
    monkeypatch.setattr(sitecustomize, "FOLDER", Path(failpoints.environment["MIRROR_FAILPOINTS"]))
    failpoints.arm("RAISE", "after-it")
    with pytest.raises(RuntimeError, match="after-it"):
        asyncio.run(sitecustomize._around_async(nothing, None, "after-it")())


def test_a_step_is_counted_from_when_it_was_armed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failpoints = Failpoints(tmp_path)
    monkeypatch.setattr(sitecustomize, "FOLDER", Path(failpoints.environment["MIRROR_FAILPOINTS"]))
    for _ in range(2):
        failpoints.arm("RAISE", "again", nth=2)
        sitecustomize.reached("again")
        with pytest.raises(RuntimeError, match="again"):
            sitecustomize.reached("again")
        assert failpoints.wait("again")
