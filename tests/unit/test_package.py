"""The package that executors receive contains everything that tasks import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mirror.spark.session import _package


def test_tasks_find_all_their_modules_in_the_package(tmp_path: Path) -> None:
    imports = "import mirror.spark.data_source, mirror.commands.verify.digests as module"
    code = f"import sys; sys.path.insert(0, sys.argv[1]); {imports}; print(module.__file__)"
    archive = str(_package(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code, archive], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ended.stdout.startswith(archive), ended.stdout
