"""Numbers that options don't take, and how answers are printed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mirror.cli import cli
from mirror.cli.options import Seconds, answer

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


@pytest.mark.parametrize("command", ["pause", "resume", "translate"])
def test_a_partition_is_one_that_kafka_can_have(command: str) -> None:
    for number, is_refused in ((2**31, True), (2**31 - 1, False)):
        done = CliRunner().invoke(cli, [command, "-c", "missing.yaml", "--topic", "t", "--partition", str(number)])
        assert ("Invalid value for '--partition': " in done.output) == is_refused


@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_can_not_steer_the_terminal(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J"
    with pytest.raises(SystemExit):
        answer(as_json, lambda: {"name": hostile}, lambda: f"first {hostile}\nsecond", well=True)
    printed = capsys.readouterr().out
    if as_json:
        assert json.loads(printed) == {"name": hostile}
    else:
        assert printed == "first ?]0;title??[2J\nsecond\n"
    assert "\x1b" not in printed


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
