"""The command line: one thin function per command, in modules by what the commands are for."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from mirror import __version__, logs
from mirror.cli.configuration import config, convert, schema, validate
from mirror.cli.moving import adopt, hand_back
from mirror.cli.orders import pause, resume
from mirror.cli.questions import check, plan, status, translate, verify
from mirror.cli.running import demo, driver, executor, run
from mirror.errors import MirrorError


@click.group(
    commands=[
        run,
        demo,
        executor,
        driver,
        validate,
        config,
        convert,
        adopt,
        hand_back,
        schema,
        check,
        plan,
        status,
        verify,
        translate,
        pause,
        resume,
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="mirror")
def cli() -> None:
    """Exactly-once replication between Kafka clusters, on Spark."""


def main() -> NoReturn:
    """Run the `mirror` command."""
    code = exit_code()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader of our output has closed it
        code = code or 1
    # Not sys.exit: C's exit handlers free OpenSSL's memory while librdkafka's threads may still use it. Now and then
    # that ends in a SIGSEGV instead of the exit code.
    os._exit(code)


def exit_code() -> int:
    """Run the command that the arguments name, say what has failed, and return the exit code."""
    try:
        cli.main(standalone_mode=False)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except MirrorError as error:
        logs.say_last(str(error))
        return error.exit_code
    return 0
