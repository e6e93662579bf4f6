"""Commands whose standard streams are closed or full: the exit code still says how they have ended."""

from __future__ import annotations

import errno
import io
import subprocess
import sys
from pathlib import Path

import pytest

from mirror import logs

OK = """\
clusters: {a: {bootstrap.servers: "a:9092"}, b: {bootstrap.servers: "b:9092"}}
flows: [{source: a, target: b}]
"""
WARNED = OK.replace("target: b", "target: b, topics: ['orders*']")
TLS = OK + "http: {tls_certificate: missing.pem, tls_key: missing.pem}\n"


@pytest.mark.parametrize(
    ("text", "command", "redirected", "code"),
    [
        (OK, "validate", ">&-", 0),
        (OK, "validate", "2>&-", 0),
        (OK, "validate", "<&- >&- 2>&-", 0),
        (OK, "validate", "2>/dev/full", 0),
        (OK, "validate", ">/dev/full", 1),
        (OK, "validate", ">/dev/full 2>&-", 1),
        (WARNED, "validate", "2>/dev/full", 1),
        ("", "validate", "2>&-", 2),
        ("", "validate", "2>/dev/full", 2),
        ("", "validate", ">&-", 2),
        (OK, "validate --no-such-option", "2>&-", 2),
        (OK, "validate --no-such-option", "2>/dev/full", 2),
        (TLS, "run", "2>&-", 2),
    ],
)
def test_the_exit_code_does_not_depend_on_where_the_text_goes(
    tmp_path: Path, text: str, command: str, redirected: str, code: int
) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(text)
    line = f"exec {sys.executable} -m mirror {command} -c {file} {redirected}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    if redirected == ">/dev/full":
        assert ended.stderr == "the output can't be written: No space left on device\n"


class Full(io.StringIO):
    """A stream whose device is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_said_last_needs_no_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (None, Full()):
        monkeypatch.setattr(sys, "stderr", stream)
        logs.say_last("failed")
