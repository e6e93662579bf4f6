"""What the image installs: each dependency in one version, checked by its hash, in the range of pyproject.toml."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = ("requirements.txt", "requirements-build.txt", "requirements-sbom.txt")
PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2", "sys_platform": "linux"}  # Debian bookworm's


def pinned(file: str) -> dict[str, str]:
    """Each package's version. Fails on a line that is neither a comment nor a version with its hashes."""
    text = re.sub(r"^#.*\n", "", (ROOT / file).read_text(), flags=re.MULTILINE).replace("\\\n", "")
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([\w.-]+)==([\w.]+)(?: ; [^#]+?)?((?: +--hash=sha256:[0-9a-f]{64})+) *", line)
        assert match, f"{file}: {line[:100]}"
        found[str(canonicalize_name(match[1]))] = match[2]
    return found


def needed(requirements: list[str]) -> dict[str, Requirement]:
    parsed = [Requirement(each) for each in requirements]
    return {canonicalize_name(each.name): each for each in parsed if not each.marker or each.marker.evaluate(PYTHON)}


def project() -> dict[str, list[str]]:
    """What the image asks for, by file. Lists of text look the same in TOML and Python."""
    text = (ROOT / "pyproject.toml").read_text()

    def listed(key: str) -> list[str]:
        (found,) = re.findall(rf"^{key} = (\[.*?\])$", text, re.MULTILINE | re.DOTALL)
        return [str(each) for each in ast.literal_eval(found)]

    return {
        "the wheel": listed("dependencies"),
        "requirements.txt": [*listed("dependencies"), *listed("otlp"), *listed("msk-iam")],
        "requirements-build.txt": listed("requires"),
        "requirements-sbom.txt": ["cyclonedx-bom"],
    }


@pytest.mark.parametrize("file", FILES)
def test_what_the_project_asks_for_is_pinned_within_its_range(file: str) -> None:
    pins, asked = pinned(file), needed(project()[file])
    assert asked.keys() <= pins.keys()
    assert [name for name, each in asked.items() if not each.specifier.contains(pins[name])] == []


def test_build_tools_are_apart() -> None:
    """They are removed from the image after the build."""
    assert not pinned("requirements.txt").keys() & pinned("requirements-build.txt").keys()


def test_what_writes_the_bill_of_materials_is_not_in_the_image() -> None:
    """It has an environment of its own, which the last stage does not copy."""
    *_, last = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    copied = [line for line in last.splitlines() if line.startswith("COPY --from")]
    assert copied == ["COPY --from=sbom /sbom.cdx.json /usr/share/doc/mirror/sbom.cdx.json"]


def test_the_image_installs_nothing_else() -> None:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    installs = [line for command in lines for line in command.split("&&") if "pip install" in line]
    assert len(installs) == 4
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert all("--no-build-isolation" in line or "--only-binary :all:" in line for line in installs)
    copied = {word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]}
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} <= set(allowed)
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert (
        bases == ["$BASE", "$BASE", "runtime", "runtime"] and "ARG BASE=docker.io/library/debian:bookworm-slim" in lines
    )
