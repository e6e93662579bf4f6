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


def begin(directory: Path, lot: str, *options: str) -> subprocess.Popen[str]:
    own = [f"--lot={lot}", f"--taken={directory / 'taken'}", *options]
    own += ["-o", f"cache_dir={directory / 'cache'}", str(directory)]
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


@pytest.mark.parametrize(
    ("lot", "until", "order"),
    [("1/2", "inf", "m2 m4 m1 m3 m0"), ("2/2", "0", "m4 m1 m3 m2")],
)
def test_the_first_lot_begins_with_the_long_modules_and_the_other_ends_with_them(
    tmp_path: Path, lot: str, until: str, order: str
) -> None:
    """Of the others, those that share a service come first, and slow ones last; late, a slow one is left out."""
    (tmp_path / "taken").mkdir()
    shares = "@pytest.fixture\ndef shared_service() -> None: ...\n\n@pytest.mark.usefixtures('shared_service')"
    markers = ("@pytest.mark.slow", "", "@pytest.mark.long", "", shares)
    for number, marker in enumerate(markers):
        (tmp_path / f"test_m{number}.py").write_text(TESTS.format(marker=marker, name=f"m{number}"))
    out, _ = begin(tmp_path, lot, "--slow", f"--until={until}").communicate(timeout=60)
    assert re.findall(r"<(m\d)>", out) == order.split()
    late = until == "0"
    assert ("left out: 1 slow tests, for the time was over" in out) == late
    assert (len(re.findall(r"^\S*test_m0\.py::test_it$", out, re.MULTILINE)) == 1) == late


def test_a_slow_test_that_is_left_out_leaves_no_fixtures_of_its_module(tmp_path: Path) -> None:
    """The module's other tests are not slow, and ran in time; another module follows."""
    (tmp_path / "taken").mkdir()
    slow = "\n@pytest.mark.slow\ndef test_slow() -> None:\n    print('<slow>')\n"
    for name, more in (("m0", slow), ("m1", "")):
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(marker="", name=name) + more)
    lot = begin(tmp_path, "1/2", "--slow", "--until=0")
    out, _ = lot.communicate(timeout=60)
    assert lot.returncode == pytest.ExitCode.OK, out
    assert re.findall(r"<(\w+)>", out) == ["begins", "m0", "ends", "begins", "m1", "ends"]
    assert "left out: 1 slow tests" in out and len(re.findall(r"^\S*test_m0\.py::test_slow$", out, re.MULTILINE)) == 1
