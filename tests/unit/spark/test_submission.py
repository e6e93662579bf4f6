"""What the command line does as the application of a spark-submit, and as the driver that starts one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

import mirror
from mirror.cli import cli
from mirror.errors import ConfigError

APPLICATION = Path(mirror.__file__).with_name("__main__.py")


def test_a_standby_would_not_hear_the_signals_of_a_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    error = CliRunner().invoke(cli, ["run", "-c", "missing.yaml", "--standby"]).exception
    assert isinstance(error, ConfigError) and error.exit_code == 2
    assert "--standby" in str(error) and "missing.yaml" not in str(error)
    error = CliRunner().invoke(cli, ["run", "-c", "missing.yaml"]).exception
    assert isinstance(error, ConfigError) and "missing.yaml" in str(error)


def test_the_folder_of_an_operators_files_is_not_on_the_class_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM would not use its archive of classes. Spark names the file with its settings in the arguments."""
    calls: list[tuple[list[str], Mapping[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda _, line, environment: calls.append((line, environment)))
    for name, value in {
        "SPARK_HOME": "/opt/spark",
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.3",
        "SPARK_SUBMIT_OPTS": "-Da=b",
        "KEPT": "kept",
    }.items():
        monkeypatch.setenv(name, value)
    told = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///mirror.py", "run", "-c", "a.yaml"]
    done = CliRunner().invoke(cli, ["driver", *told], catch_exceptions=False)
    ((line, environment),) = calls
    assert done.exit_code == 0 and line[-len(told) :] == told
    assert "SPARK_CONF_DIR" not in environment and os.environ["SPARK_CONF_DIR"], "only the driver has none"
    assert (environment["SPARK_HOME"], environment["KEPT"]) == ("/opt/spark", "kept")
    assert environment["SPARK_SUBMIT_OPTS"].endswith(" -Da=b") and "log4j2" in environment["SPARK_SUBMIT_OPTS"]


@pytest.mark.parametrize("safe_path", ["", "1"])
def test_the_application_keeps_the_python_path(safe_path: str, tmp_path: Path) -> None:
    """Python puts the file's folder first, but not with PYTHONSAFEPATH."""
    first = tmp_path / "mirror" / "cli.py"
    first.parent.mkdir()
    first.with_name("__init__.py").touch()
    first.write_text("def main():\n    print('the first on the path')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": safe_path}
    done = subprocess.run([sys.executable, APPLICATION], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "the first on the path\n"
