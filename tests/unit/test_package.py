"""What leaves the tree: the sdist and the wheel, and the zip that executors are sent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import dist
import pytest
import yaml

import mirror
from mirror.spark.shipping import package
from tests.unit.test_pins import pinned, project

ROOT = Path(__file__).parents[2]
ONLY_IN_THE_SDIST = ("CHANGELOG.md", "config.example.yaml")
COMMITTED = 1_790_000_000  # even: a zip has every second second


def modules_and_data(folder: Path) -> set[str]:
    """Every file of the package, as a path from the package's parent."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder.parent).as_posix() for path in files}


def a_tree(folder: Path, written: float) -> Path:
    """What the image's build gets, and what the sdist has more, with files that were written at this time."""
    (copied,) = re.findall(r"^COPY (pyproject\.toml .*) /src/$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    shutil.copytree(ROOT / "mirror", folder / "mirror", ignore=shutil.ignore_patterns("__pycache__"))
    for name in [*copied.split(), *ONLY_IN_THE_SDIST]:
        shutil.copy(ROOT / name, folder)
    for file in folder.rglob("*"):
        os.utime(file, (written, written))
    return folder


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The real sdist and wheel, built without a network."""
    tree = a_tree(tmp_path_factory.mktemp("tree"), 1e9)
    return dist.build(tree, tmp_path_factory.mktemp("archives"), COMMITTED)


@pytest.fixture(scope="module")
def wheel(archives: tuple[Path, Path]) -> Path:
    """The real wheel."""
    return archives[1]


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The wheel's METADATA: what an index and `pip show` tell of it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_another_tree_at_another_time_gives_the_same_bytes(archives: tuple[Path, Path], tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        again = dist.build(a_tree(tmp_path / "another", time.time()), tmp_path, COMMITTED)
    finally:
        os.umask(before)
    for first, second in zip(archives, again, strict=True):
        assert first.read_bytes() == second.read_bytes(), second.name


def test_all_dates_in_the_archives_are_the_commits(archives: tuple[Path, Path]) -> None:
    sdist, wheel = archives
    with tarfile.open(sdist) as packed:
        dates = {each.mtime for each in packed.getmembers() if each.name != f"{sdist.name[:-7]}/PKG-INFO"}
        owners = {(each.uid, each.gid, each.uname, each.gname) for each in packed.getmembers()}
    assert (dates, owners) == ({COMMITTED}, {(0, 0, "", "")})
    with zipfile.ZipFile(wheel) as packed_wheel:
        assert {each.date_time for each in packed_wheel.infolist()} == {time.gmtime(COMMITTED)[:6]}


def test_the_sdist_has_what_the_wheel_has_and_no_tests(archives: tuple[Path, Path]) -> None:
    sdist, _ = archives
    with tarfile.open(sdist) as packed:
        names = {each.name.partition("/")[2] for each in packed.getmembers() if each.isfile()}
    beside = {"pyproject.toml", "PKG-INFO", "README.md", "LICENSE", "NOTICE", *ONLY_IN_THE_SDIST}
    assert names == modules_and_data(ROOT / "mirror") | beside


def test_who_develops_builds_with_the_backend_that_the_release_has() -> None:
    (developed,) = re.findall(r'"flit_core==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert developed == pinned("requirements-build.txt")["flit-core"]


def test_the_wheel_has_the_distributions_name_and_the_packages_version(wheel: Path, metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("kafka-mirror-spark", mirror.__version__)
    assert wheel.name == f"kafka_mirror_spark-{mirror.__version__}-py3-none-any.whl"


def test_the_version_stands_in_one_place() -> None:
    """`mirror/__init__.py` also runs from a source tree and from the executors' zip, where there is no metadata."""
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    command = [sys.executable, "-m", "mirror", "--version"]
    assert mirror.__version__ in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_changelog_knows_the_version() -> None:
    assert f"## [{mirror.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_carries_its_licence(wheel: Path, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    with zipfile.ZipFile(wheel) as archive:
        for name in ("LICENSE", "NOTICE"):
            (packed,) = [each for each in archive.namelist() if each.endswith(f".dist-info/licenses/{name}")]
            assert archive.read(packed) == (ROOT / name).read_bytes()


def test_the_wheel_names_no_address(metadata: Message) -> None:
    """The project has none yet, and an invented one would lead to a stranger."""
    assert metadata["Author"] == "The mirror authors"
    fields = ("Author-email", "Maintainer-email", "Home-page", "Download-URL", "Project-URL")
    assert [metadata[field] for field in fields] == [None] * len(fields)


def test_the_wheel_asks_for_what_the_project_asks_for(metadata: Message) -> None:
    asked = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    names = {re.split(r"[^\w-]", each)[0].lower() for each in asked}
    assert names == {re.split(r"[^\w-]", each)[0].lower() for each in project()["the wheel"]}
    (oldest,) = re.findall(r"--python-version (\S+)", (ROOT / "requirements.txt").read_text())
    assert metadata["Requires-Python"] == f">={oldest}"


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == modules_and_data(ROOT / "mirror")


def test_the_wheel_starts_the_command(wheel: Path, metadata: Message) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("entry_points.txt")]
        assert archive.read(name).decode().split() == ["[console_scripts]", "mirror=mirror.cli:main"]


def test_the_notice_names_every_package_that_runs() -> None:
    """They are in the image, which has the extras otlp and msk-iam."""
    named = set(re.findall(r"^  ([a-z][\w-]+)  ", (ROOT / "NOTICE").read_text(), re.MULTILINE))
    assert named == pinned("requirements.txt").keys()


def test_the_wheel_names_the_versions_of_python_for_which_make_looks(metadata: Message) -> None:
    (sought,) = re.findall(r"^PYTHONS = python3 (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    of_python = "Programming Language :: Python :: "
    named = {each.removeprefix(of_python) for each in metadata.get_all("Classifier", []) if each.startswith(of_python)}
    assert named - {"3", "3 :: Only"} == {each.removeprefix("python") for each in sought.split()}


def test_pre_commit_runs_what_make_lint_runs() -> None:
    """Its hooks start programs of this machine alone: nothing is fetched from an address."""
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    hooks = repository["hooks"]
    assert all(each["language"] == "system" and not each["pass_filenames"] for each in hooks)
    in_make = [
        line.strip().replace("$(RUN)", ".venv/bin/python -m").replace("$(VENV)", ".venv")
        for line in recipe.splitlines()
    ]
    assert [each["entry"] for each in hooks] == in_make


def test_tasks_find_all_their_modules_in_the_package(tmp_path: Path) -> None:
    imports = "import mirror.spark.slice_tasks, mirror.commands.verify.digests as module"
    code = f"import sys; sys.path.insert(0, sys.argv[1]); {imports}; print(module.__file__)"
    archive = str(package(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code, archive], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ended.stdout.startswith(archive), ended.stdout


def test_the_package_knows_its_version_without_being_installed(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import mirror; print(mirror.__file__, mirror.__version__)"
    archive = str(package(tmp_path))
    command = [sys.executable, "-I", "-S", "-c", code, archive]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.split() == [f"{archive}/mirror/__init__.py", mirror.__version__]
