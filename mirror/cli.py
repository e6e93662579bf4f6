"""The command line: one thin function per verb."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mirror import __version__, config, logs
from mirror.errors import MirrorError

CONFIG = click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The YAML configuration; see config.example.yaml.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mirror")
def cli() -> None:
    """Exactly-once replication between Kafka clusters, on Spark."""


@cli.command()
@CONFIG
def run(path: Path) -> None:
    """Run the service until SIGTERM or Ctrl-C.

    \b
    Exit codes: 0 stopped, 1 failed, 2 bad configuration, 3 another service took over.
    Example: mirror run -c mirror.yaml
    """
    settings = config.load(path)
    logs.configure(settings.log)
    from mirror.service import Service  # noqa: PLC0415  # pyspark is slow to import

    Service(settings).run()


@cli.command()
@CONFIG
def validate(path: Path) -> None:
    """Check a configuration, without any network.

    \b
    Exit codes: 0 valid, 2 not; each problem is one line with file, line and key.
    Example: mirror validate -c mirror.yaml
    """
    settings = config.load(path)
    flows = ", ".join(flow.name for flow in settings.flows)
    click.echo(f"{path}: ok ({len(settings.flows)} flow{'s' * (len(settings.flows) != 1)}: {flows})")


@cli.command()
@click.option(
    "--seconds", default=80.0, show_default=True, type=click.FloatRange(min=5), help="How long to write records."
)
@click.option(
    "--keep", is_flag=True, help="Leave everything running until Ctrl-C, without the kill and the comparison."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; progress goes to stderr.")
def demo(seconds: float, keep: bool, as_json: bool) -> None:
    """Copy records between two local clusters before your eyes: about two minutes.

    \b
    Exit codes: 0 both clusters are equal, 1 they are not or something failed, 2 Java is missing.
    Example: mirror demo
    """
    from mirror.demo import run  # noqa: PLC0415  # only this verb needs it

    sys.exit(0 if run(seconds, keep, as_json) else 1)


def main() -> None:
    """The `mirror` command."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except MirrorError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
