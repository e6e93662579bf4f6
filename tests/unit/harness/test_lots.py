"""Runs at the same time: each module is in one of them, each port in one, and not two long modules at once."""

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

@pytest.fixture(scope="module", autouse=True)
def module():
    print("<begins>")
    yield
    print("<ends>")

{marker}
def test_it() -> None:
    print("<{name}>", *(free_port() for _ in range(100)))
"""
COMMAND = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-s"]


def begin(directory: Path, lot: str) -> subprocess.Popen[str]:
    own = [f"--lot={lot}", f"--taken={directory / 'taken'}", "-o", f"cache_dir={directory / 'cache'}", str(directory)]
    return subprocess.Popen([*COMMAND, *own], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_each_module_runs_in_one_lot_with_ports_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    names = [f"m{number}" for number in range(6)]
    for name in names:
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(marker="", name=name))
    ran: list[str] = []
    for number, lot in enumerate([begin(tmp_path, "1/2"), begin(tmp_path, "2/2")]):
        out, _ = lot.communicate(timeout=60)
        assert lot.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), out
        found = re.findall(r"<(m\d)> (.*)", out)
        ran += [name for name, _ in found]
        assert {int(port) % 2 for _, ports in found for port in ports.split()} <= {number}
        assert out.count("<begins>") == out.count("<ends>") == len(found), "a module's fixtures end with it"
        assert f"{len(found)} passed" in out or not found
    assert sorted(ran) == names


@pytest.mark.parametrize(("lot", "order"), [("1/2", "m1 m3 m0 m2"), ("2/2", "m3 m0 m2 m1")])
def test_the_first_lot_begins_with_the_long_modules_and_the_other_ends_with_them(
    tmp_path: Path, lot: str, order: str
) -> None:
    """Of the others, those that share a service come first."""
    (tmp_path / "taken").mkdir()
    shares = "@pytest.fixture\ndef shared_service() -> None: ...\n\n@pytest.mark.usefixtures('shared_service')"
    for name, marker in (("m0", ""), ("m1", "@pytest.mark.long"), ("m2", ""), ("m3", shares)):
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(marker=marker, name=name))
    out, _ = begin(tmp_path, lot).communicate(timeout=60)
    assert re.findall(r"<(m\d)>", out) == order.split()
