"""docs/design.md against the code: its picture of the rooms, its table of them, and the functions that it names.

And the law of imports: `make lint` fails on an import against it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mirror"
PYPROJECT = (ROOT / "pyproject.toml").read_text()
DESIGN = (ROOT / "docs" / "design.md").read_text()
NAMED = re.compile(r"`((?:[a-z_]+/)*[a-z_0-9]+\.py):([A-Za-z_.]+)`")  # `task/task.py:SliceTask.run`


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rooms = _module(ROOT / "docs" / "rooms.py")


def test_the_picture_is_what_the_code_gives() -> None:
    committed = (ROOT / "docs" / "rooms.svg").read_text()
    assert committed == rooms.picture(PACKAGE, PYPROJECT), "python docs/rooms.py draws it again"


def test_the_table_has_every_room() -> None:
    table = DESIGN.partition("| room |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)/?` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(rooms.imports(PACKAGE))
    assert sorted(named) == sorted(room for row in rooms.layers(PYPROJECT) for room in row)


def test_an_import_is_found_wherever_it_stands(tmp_path: Path) -> None:
    files = {
        "cli.py": "def run():\n    from mirror import web\n",
        "web/__init__.py": "",
        "web/server.py": "import mirror.errors\nfrom mirror.kafka.cluster import Admin\nfrom mirror.web import page\n",
        "kafka/cluster.py": "import json\nfrom mirror import errors\n",
        "errors.py": "from mirror import __version__\n",
    }
    for name, text in files.items():
        path = tmp_path / "mirror" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = rooms.imports(tmp_path / "mirror")
    assert found == {"cli": {"web"}, "web": {"errors", "kafka"}, "kafka": {"errors"}, "errors": set()}
    assert rooms.direct(found)["web"] == {"kafka"}


def _lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, check=False, cwd=tree, capture_output=True, text=True, timeout=60)


def test_lint_fails_on_an_import_against_the_law(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "mirror", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    found = _lint_imports(tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    with (tmp_path / "mirror" / "errors.py").open("a") as errors:
        errors.write("\nimport mirror.service\n")
    found = _lint_imports(tmp_path)
    assert found.returncode != 0
    assert "The rooms stand on each other in one order BROKEN" in found.stdout
    assert "mirror.errors is not allowed to import mirror.service" in found.stdout


def test_design_names_functions_at_least_as_often_as_it_has_rows() -> None:
    assert len(NAMED.findall(DESIGN)) > 40


@pytest.mark.parametrize("file, name", sorted(set(NAMED.findall(DESIGN))))
def test_what_design_names_is_in_the_code(file: str, name: str) -> None:
    assert (PACKAGE / file).exists(), f"docs/design.md names mirror/{file}, which does not exist"
    scope: ast.AST = ast.parse((PACKAGE / file).read_text())
    for part in name.split("."):
        found = [each for each in ast.iter_child_nodes(scope) if part in _defines(each)]
        assert found, f"docs/design.md: mirror/{file} has no {name}"
        scope = found[0]


def _defines(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
