"""The command line: one thin function per command, in modules by what the commands are for."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import NoReturn

import click

from mirror import __version__, logs
from mirror.cli.configuration import config, convert, schema, validate
from mirror.cli.moving import adopt, hand_back
from mirror.cli.orders import pause, resume
from mirror.cli.questions import check, plan, status, translate, verify
from mirror.cli.running import demo, driver, executor, run
from mirror.errors import MirrorError

_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


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
    _open_closed_streams()
    code = exit_code()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
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
        with suppress(OSError):
            error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except MirrorError as error:
        logs.say_last(str(error))
        return error.exit_code
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        logs.say_last(f"the output can't be written: {error.strerror}")
        return 1
    return 0


def _open_closed_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed.

    Otherwise the next file or connection would get its number, and the output of C libraries and of child processes.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))
