"""The workflow that makes a release: what two linters say of it, and what the release is made of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror import __version__
from tests.harness import helm, workflows
from tests.harness.chart import LOCAL
from tests.harness.lots import Lots

ROOT = Path(__file__).parents[3]
FILE = ROOT / ".github" / "workflows" / "release.yml"
TEXT = FILE.read_text()
NOTES = ROOT / "deploy" / "release" / "notes.sh"


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
    return found


def test_actionlint_finds_nothing() -> None:
    done = workflows.actionlint(FILE)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_zizmor_finds_nothing() -> None:
    done = workflows.zizmor(FILE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("linter", "old", "new", "says"),
    [
        (workflows.actionlint, "needs: test", "needs: tests", "tests"),
        (workflows.actionlint, "steps.build.outputs.digest", "steps.built.outputs.digest", "built"),
        (workflows.zizmor, "permissions: {}\n\nconcurrency", "concurrency", "permissions"),
        (workflows.zizmor, 'notes.sh "$GITHUB_REF_NAME"', "notes.sh ${{ github.ref_name }}", "template"),
        (workflows.zizmor, "@3d3c42e5aac5ba805825da76410c181273ba90b1", "@v7", "unpinned"),
    ],
)
def test_the_linters_find_mistakes(linter: Any, old: str, new: str, says: str, tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    assert old in TEXT
    (folder / "release.yml").write_text(TEXT.replace(old, new))
    done = linter(folder / "release.yml")
    assert done.returncode != 0 and says in done.stdout + done.stderr, done.stdout + done.stderr


def test_no_address_is_invented_and_every_name_from_outside_is_explained() -> None:
    assert "://" not in TEXT.replace("oci://", "")
    head = TEXT.partition("\nname:")[0]
    for name in re.findall(r"(?:vars|secrets)\.([A-Z_]+)", TEXT):
        assert re.search(rf"\b{name}\b", head), name


def test_only_what_publishes_waits_for_an_approval_and_nothing_is_published_untested() -> None:
    def needed(name: str) -> set[str]:
        before = jobs()[name].get("needs", [])
        return {name}.union(*map(needed, [before] if isinstance(before, str) else before))

    assert all("test" in needed(name) for name in jobs())
    assert {name for name, job in jobs().items() if job.get("environment") == "release"} == jobs().keys() - {
        "test",
        "build",
    }


def test_no_image_is_pushed_of_what_can_not_be_built() -> None:
    assert jobs()["image"]["needs"] == ["test", "build"]


def test_nothing_is_published_beside_an_image_that_failed() -> None:
    """Without IMAGE the image's job is skipped, and by default a job that needs a skipped one is skipped, too."""
    ready = "!cancelled() && needs.build.result == 'success' && (vars.IMAGE == '' || needs.image.result == 'success')"
    for name in ("chart", "index", "release"):
        assert jobs()[name]["needs"] == ["build", "image"] and ready in jobs()[name]["if"], name
    assert jobs()["image"]["if"] == "vars.IMAGE != ''"


@pytest.mark.parametrize("image", ["", "registry.example:5000/a/mirror"])
def test_the_chart_of_a_release_runs_its_image(image: str, tmp_path: Path) -> None:
    (step,) = [each for each in jobs()["build"]["steps"] if each.get("run") == "make release"]
    assert step["env"] == {"IMAGE": "${{ vars.IMAGE }}"}
    assert "deploy/release/chart.sh $$helm dist\n" in (ROOT / "Makefile").read_text()
    script = ROOT / "deploy" / "release" / "chart.sh"
    subprocess.run([script, helm.helm(), tmp_path], env={**os.environ, "IMAGE": image}, check=True)
    packed = tmp_path / f"mirror-{__version__}.tgz"
    done = helm.render(packed, "--values", str(LOCAL), "--set", "metrics.prometheusRule.enabled=true")
    assert f"image: {image or 'mirror'}:{__version__}\n" in done.stdout, done.stdout + done.stderr


class Terminal:
    """Takes what a run of the tests says at its end."""

    def __init__(self) -> None:
        self.text = ""

    def section(self, title: str) -> None:
        self.text += f"=========== {title} ===========\n"

    def line(self, text: str) -> None:
        self.text += f"{text}\n"


@pytest.mark.parametrize(("left_out", "code", "ends"), [(0, 0, 0), (0, 1, 1), (2, 0, 1)])
def test_one_step_runs_what_ci_runs_and_needs_the_slow_tests(
    left_out: int, code: int, ends: int, tmp_path: Path
) -> None:
    (step,) = [each["run"] for each in jobs()["test"]["steps"] if ".ci/run" in each.get("run", "")]
    lots, terminal = Lots(1, tmp_path), Terminal()
    lots._left_out += ["a slow test"] * left_out
    lots.pytest_terminal_summary(terminal)  # type: ignore[arg-type]
    (tmp_path / ".ci").mkdir()
    (tmp_path / "said").write_text(terminal.text + "=== passed: test\n")
    (tmp_path / ".ci" / "run").write_text(f"#!/bin/sh\ncat said\nexit {code}\n")
    (tmp_path / ".ci" / "run").chmod(0o755)
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step]  # as GitHub runs it
    environment = {**os.environ, "RUNNER_TEMP": str(tmp_path)}
    done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == ends and "=== passed: test\n" in done.stdout, done
    assert ("::error::" in done.stdout) is bool(left_out)


def test_a_release_is_made_of_a_commit(tmp_path: Path) -> None:
    """The chart, the alerts and the dashboard are copied from the tree."""
    assert re.search(r"^release: committed dist ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "MAKE"))}
    environment["GIT_CEILING_DIRECTORIES"] = str(tmp_path.parent)  # the folder may be within this repository

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    assert call("make", "committed").returncode != 0, "there is no repository"
    assert call("git", "init").returncode == 0
    assert call("git", "add", ".").returncode == 0
    person = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    assert call("git", *person, "commit", "--message", "all", "--no-verify").returncode == 0
    done = call("make", "committed")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (tmp_path / "pyproject.toml").write_text("changed")
    (tmp_path / "new").touch()
    done = call("make", "committed")
    assert done.returncode != 0 and " M pyproject.toml\n?? new\n" in done.stderr, done


@pytest.mark.parametrize(
    ("tag", "dated", "says"),
    [
        (f"v{__version__}", True, ""),
        (f"v{__version__}", False, f"has no date for {__version__}"),
        (__version__, True, f"the tag has to be v{__version__}"),
        ("v9.9.9", True, f"the tag has to be v{__version__}"),
    ],
)
def test_a_tag_needs_its_version_and_a_date(tag: str, dated: bool, says: str, tmp_path: Path) -> None:
    folder = tmp_path / "deploy" / "release"
    folder.mkdir(parents=True)
    shutil.copy(NOTES, folder)
    (tmp_path / "mirror").mkdir()
    shutil.copy(ROOT / "mirror" / "__init__.py", tmp_path / "mirror")
    date = "2026-11-30" if dated else "unreleased"
    sections = {"9.0.0] - unreleased": "Next.", f"{__version__}] - {date}": "Now.", "0.0.1] - 2020-01-01": "Old."}
    text = "\n\n".join(f"## [{head}\n\n{body}" for head, body in sections.items())
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{text}\n")
    done = subprocess.run([folder / "notes.sh", tag], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(says) and says in done.stderr, done
    assert done.stdout.split() == ([] if says else ["Now."])
