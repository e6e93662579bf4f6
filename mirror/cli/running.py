"""Commands that copy: the service, and the demo."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from mirror import logs
from mirror.cli.options import CONFIG, Seconds
from mirror.config.reload import Configuration
from mirror.errors import ConfigError
from mirror.malloc import bound_arenas
from mirror.service.reloading import Hangups
from mirror.spark.submission import is_submitted
from mirror.timing import TAKE_OVER_AFTER, TAKE_OVER_LEAST

# spark-submit's JVM hands signals on to a service that runs. While one waits, SIGTERM would end the JVM alone.
_NO_STANDBY = (
    "--standby: not possible as the application of a spark-submit, which could not stop a service that still waits; "
    "start `mirror run --standby` by itself"
)


@click.command()
@CONFIG
@click.option("--standby", is_flag=True, help="Wait, and take over when a flow has had no living service for a while.")
@click.option(
    "--standby-after",
    show_default=f"{TAKE_OVER_AFTER:g}",
    type=Seconds(TAKE_OVER_LEAST, 86_400),
    metavar="SECONDS",
    help="How long --standby waits without a sign of life.",
)
def run(paths: tuple[Path, ...], standby: bool, standby_after: float | None) -> None:
    """Run the service until SIGTERM or Ctrl-C. It reads its configuration again on SIGHUP, and when a file changes.

    \b
    Exit codes: 0 stopped, 1 failed, 2 bad configuration, 3 another service took over.
    Example: mirror run -c mirror.yaml
    Example: mirror run -c mirror.yaml --standby --standby-after 60
    """
    if standby_after is not None and not standby:
        raise click.UsageError("--standby-after needs --standby")
    if standby and is_submitted(os.environ):
        raise ConfigError([_NO_STANDBY])
    hangups = Hangups()
    hangups.listen()  # first: what follows takes a second
    bound_arenas()
    configuration = Configuration(paths)
    logs.configure(configuration.settings.log)
    from mirror.service import service  # noqa: PLC0415  # pyspark is slow to import

    service.run(configuration, hangups, (standby_after or TAKE_OVER_AFTER) if standby else None)


@click.command()
@click.option("--seconds", default=80.0, show_default=True, type=Seconds(5), help="How long to write records.")
@click.option(
    "--keep", is_flag=True, help="Leave everything running until Ctrl-C, without the kill and the comparison."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; progress goes to stderr.")
def demo(seconds: float, keep: bool, as_json: bool) -> None:
    """Show mirror at work between two local clusters: takes about two minutes.

    \b
    Exit codes: 0 both clusters are equal, 1 they are not or something failed, 2 Java is missing.
    Example: mirror demo
    """
    from mirror.demo.command import run  # noqa: PLC0415  # only this verb needs it

    sys.exit(0 if run(seconds, keep, as_json) else 1)


@click.command(hidden=True)
def executor() -> None:
    """Be an executor of Spark's. Spark calls this in each pod that it starts on Kubernetes."""
    from mirror.spark import pod_command  # noqa: PLC0415  # only these two verbs need it
    from mirror.spark.home import spark_home  # noqa: PLC0415  # pyspark is slow to import
    from mirror.spark.java import java  # noqa: PLC0415

    home = spark_home()
    _become(pod_command.executor(os.environ, java(), home.path), {**os.environ, "SPARK_HOME": str(home.path)})


@click.command(hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def driver(arguments: tuple[str, ...]) -> None:
    """Be a driver of Spark's, whose application is `mirror run`. An operator of Kubernetes calls this."""
    from mirror.spark import pod_command  # noqa: PLC0415  # only these two verbs need it
    from mirror.spark.home import spark_home  # noqa: PLC0415  # pyspark is slow to import
    from mirror.spark.jvm import DRIVER_PYTHON, JAVA_OPTIONS, java_options  # noqa: PLC0415

    home = spark_home()
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    environment = {
        **os.environ,
        "SPARK_HOME": str(home.path),
        JAVA_OPTIONS: f"{java_options(home)} {os.environ.get(JAVA_OPTIONS, '')}",
        "PYSPARK_PYTHON": python,
        DRIVER_PYTHON: "none",
    }
    # A folder with files that comes first on the class path would keep the JVM from using the archive of classes. Spark
    # names the one file there that counts in the arguments, too.
    environment.pop("SPARK_CONF_DIR", None)
    _become(pod_command.driver(os.environ, python, arguments, home.path), environment)


def _become(line: list[str], environment: Mapping[str, str]) -> None:
    """Run a command line of Spark's in place of this process, so that Spark's signals reach the JVM."""
    os.execve(line[0], line, environment)
