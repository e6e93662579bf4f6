"""A prerequisite that is missing or too old gives one line that says how to install it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirror.demo.kafka_jars import BROKER, HASHES, KAFKA_VERSION, MIRROR_MAKER, TIER, TOOLS, kafka_jars
from mirror.errors import SetupError
from mirror.spark.java import cache_dir, java
from tests.integration.test_old_brokers import OLD

ROOT = Path(__file__).parents[3]
MAKE = shutil.which("make") or "make"


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fake_java(folder: Path, version: str) -> None:
    executable(folder / "java", f"""echo 'openjdk version "{version}" 2020-01-01' >&2""")


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH, with nothing but the sed that the Makefile needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sed").symlink_to(shutil.which("sed") or "/bin/sed")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.2", "25-ea"])
def test_java_that_is_new_enough(only: Path, version: str) -> None:
    fake_java(only, version)
    assert java() == str(only / "java")


@pytest.mark.parametrize(("version", "called"), [("1.8.0_392", "Java 8"), ("11.0.22", "Java 11"), ("16", "Java 16")])
def test_java_that_is_too_old(only: Path, version: str, called: str) -> None:
    fake_java(only, version)
    with pytest.raises(SetupError, match=f"{called}, too old: install Java 17.*apt-get install"):
        java()


def test_no_java_at_all(only: Path) -> None:
    with pytest.raises(SetupError, match=r"no java on the PATH: install Java 17.*apt-get install.*brew install"):
        java()


def test_java_that_is_only_a_stub(only: Path) -> None:
    executable(only / "java", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    with pytest.raises(SetupError, match=r"names no version, but says: Unable .*install Java 17"):
        java()


def test_java_home_goes_before_the_path(only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(only, "17")
    fake_java(tmp_path / "home" / "bin", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java() == str(tmp_path / "home" / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SetupError, match=r"no java in JAVA_HOME=.*gone"):
        java()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_dir() == Path("/own")
    monkeypatch.delenv("MIRROR_CACHE")
    assert cache_dir() == Path("/xdg/mirror")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "mirror"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, for a Kafka whose only jar is a file that holds a line with `jar`."""
    monkeypatch.setenv("MIRROR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mirror.demo.kafka_jars.HASHES", tmp_path)
    digest = hashlib.sha256(b"jar\n").hexdigest()
    (tmp_path / f"{BROKER}-{KAFKA_VERSION}.sha256").write_text(f"{digest}  kafka.jar\n")
    return tmp_path / "cache"


def fake_ivy(folder: Path, script: str) -> None:
    """A new enough java that runs `script` where Ivy's last argument, the pattern for the jars, is $pattern."""
    version = """case "$1" in -version) echo 'version "17"' >&2; exit;; esac"""
    executable(folder / "java", f"{version}\nfor pattern; do :; done\n{script}")


FETCH = '/bin/mkdir -p "${pattern%/*}" && echo jar >"${pattern%/*}/kafka.jar"'


def test_jars_are_fetched_once(only: Path, empty_cache: Path) -> None:
    fake_ivy(only, FETCH)
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        folders = set(pool.map(lambda _: kafka_jars(progress=said.append), range(4)))
    assert [jar.name for folder in folders for jar in folder.iterdir()] == ["kafka.jar"]
    assert len(said) == 1
    assert {path.suffix for path in empty_cache.iterdir()} == {".0", ".lock"}


def test_a_failed_download_is_one_line_and_leaves_nothing(only: Path, empty_cache: Path) -> None:
    fake_ivy(only, "echo; echo '  :::: ERRORS'; echo '  Server access error (Connection refused)'; exit 1")
    with pytest.raises(SetupError, match=r"^could not fetch kafka_2.13 .*Connection refused\)$"):
        kafka_jars()
    assert {path.suffix for path in empty_cache.iterdir()} == {".lock"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('echo other >"${pattern%/*}/kafka.jar"', r"kafka\.jar is not .* its SHA-256 is \w{64}, it should be \w{64};"),
        ('echo more >"${pattern%/*}/more.jar"', r"more\.jar is not .* it does not belong there;"),
        ('/bin/rm "${pattern%/*}/kafka.jar"', r"kafka\.jar is not .* it is missing, it should be \w{64};"),
    ],
    ids=["changed", "foreign", "missing"],
)
def test_a_jar_that_is_not_the_one_we_know_is_refused(only: Path, empty_cache: Path, change: str, said: str) -> None:
    fake_ivy(only, f"{FETCH}; {change}")
    with pytest.raises(SetupError, match=said):
        kafka_jars()
    assert {path.suffix for path in empty_cache.iterdir()} == {".lock"}, "and nothing of it is kept"


@pytest.mark.parametrize(
    ("artifact", "version", "least"),
    [(artifact, KAFKA_VERSION, least) for artifact, least in ((BROKER, 41), (MIRROR_MAKER, 41), (TOOLS, 1), (TIER, 1))]
    + [(BROKER, version, 39) for version in OLD],
)
def test_the_jars_of_each_artifact_are_known(artifact: str, version: str, least: int) -> None:
    lines = (HASHES / f"{artifact}-{version}.sha256").read_text().splitlines()
    assert len(lines) >= least and all(re.fullmatch(r"[0-9a-f]{64}  [\w.-]+\.jar", line) for line in lines)
    jar = f"{artifact}-{version}.jar" if artifact != TIER else f"kafka-storage-{version}-test.jar"
    assert any(line.endswith(f"  {jar}") for line in lines)


def test_make_fetches_what_the_tests_need() -> None:
    """A test that has to fetch its brokers would take longer."""
    (wanted,) = re.findall(r"^jars:.*\n\t.*kafka_jars (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    old = {f"{BROKER}:{version}" for version in OLD}
    assert set(wanted.split()) == {BROKER, MIRROR_MAKER, TOOLS, TIER, *old}


def make(target: str, tree: Path) -> list[str]:
    """What `make target` says, apart from make's own lines, on a bare copy of the tree; it has to fail."""
    tree.mkdir()
    shutil.copy(ROOT / "Makefile", tree)
    shutil.copy(ROOT / "pyproject.toml", tree)
    shutil.copytree(ROOT / "mirror", tree / "mirror", ignore=shutil.ignore_patterns("__pycache__"))
    # Without the flags of a make that runs these tests.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    ended = subprocess.run([MAKE, target], cwd=tree, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert not (tree / ".venv").exists()
    assert not (tree / ".cache").exists()
    return [line for line in (ended.stdout + ended.stderr).splitlines() if not line.startswith("make")]


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_without_java(only: Path, tmp_path: Path, target: str) -> None:
    (only / "python3").symlink_to(sys.executable)
    (line,) = make(target, tmp_path / "tree")
    assert line.startswith("no java on the PATH: install Java 17")


def test_make_with_an_old_java(only: Path, tmp_path: Path) -> None:
    (only / "python3").symlink_to(sys.executable)
    fake_java(only, "11.0.22")
    (line,) = make("test", tmp_path / "tree")
    assert "is Java 11, too old: install Java 17" in line


@pytest.mark.parametrize("target", ["demo", "test", "lint"])
def test_make_without_python(only: Path, tmp_path: Path, target: str) -> None:
    fake_java(only, "17")
    (line,) = make(target, tmp_path / "tree")
    assert re.match(r"no Python 3\.1\d or newer: install it .*apt-get install", line)


def test_make_with_an_old_python(only: Path, tmp_path: Path) -> None:
    executable(only / "python3", "exit 1")
    (line,) = make("test", tmp_path / "tree")
    assert re.match(r"no Python 3\.1\d or newer: install it .*apt-get install", line)


def test_make_with_a_python_that_has_no_venv(only: Path, tmp_path: Path) -> None:
    executable(only / "python3.12", 'case "$2" in *ensurepip*) exit 1;; esac')
    (line,) = make("test", tmp_path / "tree")
    assert line.startswith("python3.12 can't make virtual environments")
    assert "apt-get install python3.12-venv" in line


def test_make_takes_the_next_python_that_will_do(only: Path, tmp_path: Path) -> None:
    executable(only / "python3", "exit 1")
    (only / "python3.11").symlink_to(sys.executable)
    (line,) = make("test", tmp_path / "tree")
    assert line.startswith("no java on the PATH")
