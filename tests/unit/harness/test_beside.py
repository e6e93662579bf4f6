"""Two runs at the same time: each test is in one of them, and no port is in both."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest
from mirror.demo.brokers import free_port

@pytest.mark.waiting
def test_a() -> None:
    print("<a>", *(free_port() for _ in range(100)))

def test_b() -> None:
    print("<b>", *(free_port() for _ in range(100)))
"""


@pytest.mark.parametrize(("which", "name", "odd"), [("waiting", "a", 1), ("others", "b", 0)])
def test_a_run_beside_another(tmp_path: Path, which: str, name: str, odd: int) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-s"]
    command += [f"--beside={which}", "-o", f"cache_dir={tmp_path}/cache", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and "1 passed, 1 deselected" in ended.stdout, ended.stdout + ended.stderr
    ((said, ports),) = re.findall(r"<(.)> (.*)", ended.stdout)
    assert said == name and {int(port) % 2 for port in ports.split()} == {odd}
