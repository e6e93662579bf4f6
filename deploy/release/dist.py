"""Makes a release's two archives, the sdist and the wheel: the same bytes at any time, wherever zlib is the same.

    python deploy/release/dist.py FOLDER [COMMIT]

builds what git has of COMMIT, by default the last one, into FOLDER, and writes the archives' SHA-256 sums beside them.
Files that are not committed do not get in. All dates in the archives are the commit's. The wheel is made of what the
sdist holds. The bytes also depend on flit_core's version, which requirements-build.txt has, and on Python's zlib.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HOOK = "import sys; from flit_core import buildapi; print(getattr(buildapi, sys.argv[1])(sys.argv[2]))"  # PEP 517
SUMS = "SHA256SUMS"


def build(tree: Path, out: Path, date: int) -> tuple[Path, Path]:
    """The sdist and the wheel of a source tree, in `out`. `date` is in seconds since the Unix epoch."""
    sdist = _run("build_sdist", tree, out, date)
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(sdist) as archive:
            archive.extractall(directory, filter="data")
        (unpacked,) = Path(directory).iterdir()
        return sdist, _run("build_wheel", unpacked, out, date)


def _run(hook: str, tree: Path, out: Path, date: int) -> Path:
    """What one of the build backend's hooks makes. Raises CalledProcessError, after the backend has said why."""
    command = [sys.executable, "-I", "-c", HOOK, hook, str(out.absolute())]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(date)}
    ended = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return out / ended.stdout.splitlines()[-1]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], stdout=subprocess.PIPE, check=True).stdout


def main(folder: str, commit: str = "HEAD") -> None:
    """Build a commit into a folder, and print the sums."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tree:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
            archive.extractall(tree, filter="tar")  # the chart's links lead out of their folder
        archives = build(Path(tree), out, int(_git("log", "-1", "--format=%ct", commit)))
    sums = "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in archives)
    (out / SUMS).write_text(sums)
    sys.stdout.write(sums)


if __name__ == "__main__":
    main(*sys.argv[1:])
