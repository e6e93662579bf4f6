"""Numbers that options don't take."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mirror.cli import cli
from mirror.cli.options import Seconds

SECONDS = ["adopt --quiet", "hand-back --quiet", "pause --timeout", "resume --timeout"]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999", "-1", "soon"])
@pytest.mark.parametrize("option", [*SECONDS, "run --standby-after"])
def test_only_seconds_that_can_pass_are_taken(option: str, number: str) -> None:
    command, name = option.split()
    done = CliRunner().invoke(cli, [command, "-c", "missing.yaml", name, number])
    assert done.exit_code == 2
    assert done.output.count(f"Invalid value for '{name}': ") == 1, done.output


def test_no_option_has_other_fractions() -> None:
    """So those of commands that need no file, and would begin at once, are seconds, too."""
    options = [
        each for command in cli.commands.values() for each in command.params if each.type.name.startswith("float")
    ]
    assert len(options) == 6 and all(isinstance(each.type, Seconds) for each in options)


@pytest.mark.parametrize("option", SECONDS)
def test_a_command_need_not_wait_at_all(option: str) -> None:
    command, name = option.split()
    done = CliRunner().invoke(cli, [command, "-c", "missing.yaml", name, "0"])
    assert "missing.yaml" in str(done.exception) and "Invalid value" not in done.output


def test_a_number_of_differences_is_not_negative() -> None:
    done = CliRunner().invoke(cli, ["verify", "-c", "missing.yaml", "--differences", "-1"])
    assert (done.exit_code, "Invalid value for '--differences': " in done.output) == (2, True)


def test_seconds_without_standby_are_refused() -> None:
    """Without --standby the service would lead at once, and end the one that it was to wait for."""
    done = CliRunner().invoke(cli, ["run", "-c", "missing.yaml", "--standby-after", "60"])
    assert (done.exit_code, "--standby-after needs --standby" in done.output) == (2, True)
    done = CliRunner().invoke(cli, ["run", "-c", "missing.yaml", "--standby", "--standby-after", "60"])
    assert "missing.yaml" in str(done.exception)
    assert "[default: (30); " in CliRunner().invoke(cli, ["run", "--help"]).output
