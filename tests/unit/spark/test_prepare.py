"""When the archive of classes counts as made."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mirror.errors import SetupError
from mirror.spark import prepare
from mirror.spark.home import ARCHIVE, SparkHome


@pytest.mark.parametrize("ends", [True, False])
def test_what_a_jvm_that_is_too_slow_has_written_is_no_archive(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rehearse(home: SparkHome) -> bool:
        Path(home.java_options.split()[0].partition("=")[2]).write_text("a part")
        return ends

    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(logging, "disable", lambda level: None)
    monkeypatch.setattr(prepare, "prepared_home", lambda: tmp_path)
    monkeypatch.setattr(prepare, "link", lambda folder: folder)
    monkeypatch.setattr(prepare, "_rehearse", rehearse)
    if ends:
        prepare.prepare()
    else:
        with pytest.raises(SetupError, match="mirror runs without it, but starts slower"):
            prepare.prepare()
    assert [each.name for each in tmp_path.iterdir()] == ([ARCHIVE] if ends else [])
