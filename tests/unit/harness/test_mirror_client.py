"""The test of MirrorMaker's Java client runs only where Java can compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.mirror_client import require
from tests.harness.programs import CANNOT_RUN


def java_home(directory: Path, modules: str) -> str:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"""#!/bin/sh
[ "$1" = --list-modules ] && printf '{modules}' || echo 'openjdk version "17.0.1"' >&2
""")
    java.chmod(0o755)
    return str(directory)


def test_a_jre_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, r"java.base@17\njava.compiler@17\n"))
    with pytest.raises(pytest.skip.Exception) as skipped:
        require()
    assert str(skipped.value).startswith(CANNOT_RUN)


def test_a_jdk_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, r"java.base@17\njdk.compiler@17\n"))
    require()
