"""What the command line answers without any cluster."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.harness import configuration
from tests.harness.command import mirror


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "mirror.yaml"
    settings = configuration.one_flow("127.0.0.1:1", "127.0.0.1:2", ["a.*"], alias="primary")
    file.write_text(yaml.safe_dump(settings))
    return file


def test_validate_says_ok(good: Path) -> None:
    ended = mirror("validate", "-c", good)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{good}: ok (1 flow: primary->backup)\n"


def test_no_exit_handler_of_c_runs(good: Path) -> None:
    """OpenSSL's frees what librdkafka's threads may still be using, and crashes them."""
    registers = "import ctypes; c = ctypes.CDLL(None); c.__cxa_atexit(c._exit, ctypes.c_void_p(99), None)"
    ends = "from mirror.cli import main; main()"
    codes = [
        subprocess.run([sys.executable, "-c", f"{registers}; {how}", "validate", "-c", good], check=False).returncode
        for how in ("pass", ends)
    ]
    assert codes == [99, 0]


@pytest.mark.parametrize("verb", ["validate", "run"])
def test_a_bad_configuration_is_exit_2_and_one_line_a_problem(good: Path, verb: str) -> None:
    good.write_text(good.read_text().replace("refresh_topics_interval: 1s", "refresh_topics_interval: soon"))
    ended = mirror(verb, "-c", good)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"{good}:") and "flows[0].refresh_topics_interval" in line


def test_a_missing_file_is_exit_2(tmp_path: Path) -> None:
    ended = mirror("run", "-c", tmp_path / "none.yaml")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1 and "none.yaml" in ended.stderr


def test_wrong_use_is_exit_2(good: Path) -> None:
    for arguments in (["run"], ["run", "-c"], ["walk", "-c", good]):
        ended = mirror(*arguments)
        assert ended.returncode == 2 and "Traceback" not in ended.stderr, ended.stderr


def test_a_port_in_use_is_exit_2(good: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        good.write_text(good.read_text().replace("port: 0", f"port: {port}"))
        ended = mirror("run", "-c", good)
    assert ended.returncode == 2
    last = json.loads(ended.stderr.splitlines()[-1])
    assert last["level"] == "ERROR" and f"127.0.0.1:{port}" in last["msg"] and "Traceback" not in ended.stderr


def test_a_missing_extra_is_exit_2(good: Path) -> None:
    good.write_text(good.read_text() + "metrics: {otlp: {endpoint: 'http://127.0.0.1:1/v1/metrics'}}\n")
    without = "import sys; sys.modules['opentelemetry'] = None; from mirror.cli import main; main()"
    command = [sys.executable, "-c", without, "run", "-c", str(good)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "pip install 'kafka-mirror-spark[otlp]'" in ended.stderr.splitlines()[-1]


VERBS = "run validate config schema check plan status pause resume verify adopt hand-back"


@pytest.mark.parametrize("verb", VERBS.split())
def test_every_command_has_help_with_an_example(verb: str) -> None:
    ended = mirror(verb, "--help")
    assert ended.returncode == 0 and f"Example: mirror {verb}" in ended.stdout
    assert "Exit code" in ended.stdout


def test_clusters_that_are_away_are_exit_1(good: Path) -> None:
    commands = (["check"], ["plan"], ["status"], ["pause"], ["resume"], ["resume", "--continue"], ["verify"])
    with ThreadPoolExecutor(len(commands)) as pool:  # each waits for its time-outs
        for ended in pool.map(lambda command: mirror(*command, "-c", good), commands):
            assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended.args
            assert "backup" in ended.stdout + ended.stderr or "primary" in ended.stdout + ended.stderr, ended.args
