"""Commands about the configuration files. They connect to nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mirror.cli.options import AS_JSON, CONFIG
from mirror.config.load import load
from mirror.text import plural


@click.command()
@CONFIG
def validate(paths: tuple[Path, ...]) -> None:
    """Check a configuration, without any network.

    \b
    Exit codes: 0 valid (there may be warnings), 2 not; each problem is one line with file, line and key.
    Example: mirror validate -c mirror.yaml
    """
    settings = load(paths)
    for said in dict.fromkeys(map(str, settings.warnings)):
        click.echo(f"WARNING {said}", err=True)
    flows = ", ".join(flow.name for flow in settings.flows)
    named = ", ".join(map(str, paths))
    click.echo(f"{named}: ok ({plural(len(settings.flows), 'flow')}: {flows})")


@click.command()
@CONFIG
@AS_JSON
def config(paths: tuple[Path, ...], as_json: bool) -> None:
    """Print every setting as it is in effect, and where it comes from: a file and line, flow_defaults, or a default.

    Values that come from ${...} and values of secrets are hidden.

    \b
    Exit codes: 0 printed, 2 the configuration is not valid.
    Example: mirror config -c base.yaml -c production.yaml
    """
    from mirror.commands import config as verb  # noqa: PLC0415

    found = verb.resolve(paths)
    click.echo(json.dumps(verb.as_dict(found), indent=2) if as_json else verb.shown(found))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the YAML to this file; - is stdout."
)
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.option("--strict", is_flag=True, help="Exit with 1 if something that matters is not carried.")
@AS_JSON
def convert(file: Path, output: Path | None, force: bool, strict: bool, as_json: bool) -> None:
    """Write MirrorMaker 2's configuration as mirror's, and account for each of its keys.

    FILE is mm2.properties, one or more connectors of Kafka Connect (JSON or properties), or Strimzi's resource
    KafkaMirrorMaker2 (YAML). The result goes to stdout and the account to stderr. Secrets are in neither: the account
    says which environment variables to set. Connects to nothing.

    \b
    Exit codes: 0 written, 1 with --strict if something that matters is not carried, 2 bad use or unreadable input.
    Example: mirror convert mm2.properties -o mirror.yaml
    """
    from mirror.commands.convert import command as verb  # noqa: PLC0415

    found = verb.convert(file)
    output = None if output == Path("-") else output
    if output is not None:
        verb.save(found, output, force)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        if output is None:
            click.echo(found.text, nl=False)
        click.echo(verb.shown(found), err=True)
    sys.exit(1 if strict and not found.whole else 0)


@click.command()
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors.

    \b
    Exit code: 0.
    Example: mirror schema > mirror.schema.json
    """
    from mirror.commands import schema as verb  # noqa: PLC0415

    click.echo(json.dumps(verb.schema(), indent=2))
