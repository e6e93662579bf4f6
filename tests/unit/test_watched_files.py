"""When a file counts as changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror import watched_files
from mirror.watched_files import FilesWatch
from tests.harness.waiting import until


def settled(watch: FilesWatch) -> bool:
    """True if the files have changed: the first call sees that something moves, the second that it has come to rest."""
    return watch.has_changed() or watch.has_changed()


def test_a_file_that_can_be_read_again_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody renews it, and only afterwards gives mirror the permission to read it."""
    file = tmp_path / "password"
    file.write_text("old")
    watch = FilesWatch([file])
    read = watched_files._digest
    monkeypatch.setattr(watched_files, "_digest", lambda _: None)  # the tests may run as root, who can read all
    file.write_text("new")
    assert settled(watch), "it can't be read"
    assert not settled(watch)
    monkeypatch.setattr(watched_files, "_digest", read)
    before = file.stat().st_ctime_ns

    def repaired() -> bool:
        file.chmod(0o640)
        return file.stat().st_ctime_ns != before  # its clock ticks each few milliseconds

    until("another time", repaired)
    assert settled(watch)
    assert not settled(watch)


def test_other_permissions_of_the_same_content_are_no_change(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    watch = FilesWatch([file])
    file.chmod(0o600)
    assert not settled(watch)
