"""Tests that need a program are skipped without it, but not in a CI that could install it."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.harness.programs import CANNOT_RUN, program


def reason(monkeypatch: pytest.MonkeyPatch, uid: int, *there: str) -> str:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in there else None)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    with pytest.raises(pytest.skip.Exception) as skipped:
        program("promtool", "prometheus")
    return str(skipped.value)


def test_what_can_be_installed_is_no_reason_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(monkeypatch, 0, "apt-get") == "no promtool: apt-get install prometheus"


@pytest.mark.parametrize(("uid", "there"), [(1000, ("apt-get",)), (0, ()), (1000, ())])
def test_what_can_not_is_one(monkeypatch: pytest.MonkeyPatch, uid: int, there: tuple[str, ...]) -> None:
    assert reason(monkeypatch, uid, *there) == f"{CANNOT_RUN} no promtool: apt-get install prometheus"


def test_a_program_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert program("promtool", "prometheus") == "/usr/bin/promtool"
