"""Both data paths: which tests run with which, and that tests of a module share what they have for one of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mirror.config.load import load
from tests.harness.configuration import AUTO, DATA_PATHS, RECORDS
from tests.harness.pair import Pair

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

@pytest.fixture(scope="module")
def service(data_path):
    print(f"<starts {data_path}>")

@pytest.mark.both_paths
def test_two(service, data_path):
    print(f"<two {data_path}>")

def test_any(service, data_path):
    print(f"<any {data_path}>")

@pytest.mark.one_path
def test_one(service, data_path):
    print(f"<one {data_path}>")

def test_none():
    print("<none>")
"""
COMMAND = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-s", "-v"]
BY_RECORDS = ["starts records", "two records", "any records", "one records"]


@pytest.mark.parametrize(
    ("option", "whole_batches"),
    [([], ["starts auto", "two auto"]), (["--both"], ["starts auto", "two auto", "any auto"])],
    ids=["", "both"],
)
def test_the_paths_of_each_test(tmp_path: Path, option: list[str], whole_batches: list[str]) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    own = [*option, "-o", f"cache_dir={tmp_path / 'cache'}", str(file)]
    ended = subprocess.run([*COMMAND, *own], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    said = re.findall("<(.*)>", ended.stdout)
    assert said.count("none") == 1
    assert [each for each in said if each != "none"] == [*BY_RECORDS, *whole_batches], ended.stdout
    assert "::test_two[auto]" in ended.stdout and "::test_two " in ended.stdout, "records are as before"


def test_a_flow_by_either_path_shares_nothing_with_the_other(tmp_path: Path) -> None:
    file = tmp_path / "mirror.yaml"
    pairs = [Pair("here:1", "there:2", "one", "topics-").by(path) for path in DATA_PATHS]
    by_records, whole = pairs
    assert (by_records.alias, by_records.prefix) == ("one", "topics-")
    assert not whole.prefix.startswith(by_records.prefix)
    for pair, path in zip(pairs, DATA_PATHS, strict=True):
        file.write_text(str(pair.settings()))
        (flow,) = load(file, {}).flows
        assert (flow.data_path, flow.name) == (path, pair.flow)
    assert {by_records.data_path, whole.data_path} == {RECORDS, AUTO}
    assert by_records.group != whole.group
