"""Where the Spark of a driver and of an executor is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.spark import home
from mirror.spark.home import ARCHIVE, spark_home


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory, where everybody may write. There is no $SPARK_HOME, and no archive."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(home, "prepared_home", lambda: tmp_path / "prepared")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_another_user_has_put_in_the_way_is_not_run(shared: Path) -> None:
    planted = shared / "spark" / "bin"
    planted.mkdir(parents=True)
    (planted / "spark-submit").write_text("of another user")
    found = spark_home().path
    assert found.parent.stat().st_mode & 0o077 == 0, "nobody else gets in"
    assert (found / "bin" / "spark-submit").read_text() != "of another user"
    assert (found / "jars").is_dir()


def test_a_run_has_its_links_in_its_own_directory(shared: Path) -> None:
    assert spark_home(shared / "run").path == shared / "run" / "spark"


def test_a_spark_that_is_there_needs_no_directory(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = shared / "prepared" / ARCHIVE
    archive.parent.mkdir()
    archive.touch()
    assert spark_home().path == archive.parent
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home().path == Path("/opt/spark")
    assert list(shared.iterdir()) == [archive.parent]
