"""The command line: one thin function per verb."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from mirror import __version__, logs
from mirror.config.load import load
from mirror.errors import ConfigError, MirrorError
from mirror.settings import Flow, Log, Settings
from mirror.spark import security
from mirror.text import plural

CONFIG = click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The YAML configuration; see config.example.yaml.",
)
FLOW = click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow, e.g. 'primary->backup'.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


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
    settings = load(path)
    logs.configure(settings.log)
    from mirror.service.service import Service  # noqa: PLC0415  # pyspark is slow to import

    Service(settings).run()


@cli.command()
@CONFIG
def validate(path: Path) -> None:
    """Check a configuration, without any network.

    \b
    Exit codes: 0 valid, 2 not; each problem is one line with file, line and key.
    Example: mirror validate -c mirror.yaml
    """
    settings = load(path)
    flows = ", ".join(flow.name for flow in settings.flows)
    click.echo(f"{path}: ok ({plural(len(settings.flows), 'flow')}: {flows})")


@cli.command()
@click.option(
    "--seconds", default=80.0, show_default=True, type=click.FloatRange(min=5), help="How long to write records."
)
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


def _order_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that pause and resume share."""
    options = [
        CONFIG,
        FLOW,
        click.option("--topic", metavar="TOPIC", help="Only this topic, by its name on the source."),
        click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition of the topic."),
        click.option(
            "--timeout",
            default=60.0,
            show_default=True,
            type=click.FloatRange(min=0),
            help="Seconds to wait until the tasks obey.",
        ),
        AS_JSON,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command()
@_order_options
def pause(**options: Any) -> None:
    """Stop copying a flow, a topic or a partition, until it is resumed.

    Open transactions are finished, positions stay, and everything else is copied on. The order survives restarts and
    holds for new partitions, too. A later order replaces all earlier ones for the flow, topic or partition it names.

    \b
    Exit codes: 0 paused (or it will be when a service runs), 1 not obeyed in time, 2 bad use.
    Example: mirror pause -c mirror.yaml --topic orders
    """
    _order(paused=True, **options)


@cli.command()
@_order_options
@click.option(
    "--skip-lost",
    is_flag=True,
    help="Continue after records that block partitions now: lost on the source, or refused by the target.",
)
@click.option("--continue", "go_on", is_flag=True, help="Continue at the newest position that is known.")
@click.option(
    "--from-start", is_flag=True, help="Copy everything that the source has again; records that were copied stay."
)
@click.option(
    "--at", "offset", type=click.IntRange(min=0), metavar="OFFSET", help="Continue at this offset of the source."
)
def resume(skip_lost: bool, go_on: bool, from_start: bool, offset: int | None, **options: Any) -> None:
    """Copy a flow, a topic or a partition again, from where it was paused.

    With --skip-lost, partitions continue after records that the source has lost or the target refuses. --continue,
    --from-start and --at are for partitions whose position or remote topic has vanished or was changed. Each decides
    only about what blocks partitions now: for later cases see on_data_loss, on_poison_record, append_to_existing.

    \b
    Exit codes: 0 resumed (or it will be when a service runs), 1 not obeyed in time, 2 bad use.
    Example: mirror resume -c mirror.yaml --topic orders --partition 3
    """
    chosen = {"skip": skip_lost, "continue": go_on, "start": from_start, "at": offset is not None}
    actions = [action for action, is_chosen in chosen.items() if is_chosen]
    if len(actions) > 1:
        raise click.UsageError("only one of --skip-lost, --continue, --from-start and --at can be given")
    if offset is not None and options["partition"] is None:
        raise click.UsageError("--at needs --topic and --partition")
    _order(paused=False, action=actions[0] if actions else None, offset=-1 if offset is None else offset, **options)


def _order(
    path: Path,
    flow: str | None,
    topic: str | None,
    partition: int | None,
    timeout: float,
    as_json: bool,
    paused: bool,
    action: Any = None,
    offset: int = -1,
) -> None:
    from mirror.commands import pause as verb  # noqa: PLC0415
    from mirror.control.orders import Scope  # noqa: PLC0415

    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    chosen, scope = _one_flow(_load(path), flow), Scope(topic, partition)
    decided = verb.decide(chosen, scope, action, offset) if action else []
    outcome = verb.give_order(chosen, scope, paused, timeout)
    nothing = f"{chosen.name}: no partition of {scope} waits for this decision, see mirror status --partitions"
    more = {"decided": decided} if action else {}
    _answer(
        as_json,
        lambda: {**outcome.as_dict(), **more},
        lambda: "\n".join([*(decided if decided or not action else [nothing]), str(outcome)]),
        well=not outcome.failed,
    )


@cli.command()
@CONFIG
@FLOW
@click.option("--partitions", is_flag=True, help="Show a line for each partition instead of each topic.")
@AS_JSON
def status(path: Path, flow: str | None, partitions: bool, as_json: bool) -> None:
    """Show the state of flows as their tasks report it on the target: works from anywhere, without HTTP.

    \b
    Exit codes: 0 all is well, 1 a partition is retrying, blocked or silent, or a flow does not run, 2 bad use.
    Example: mirror status -c mirror.yaml --partitions
    """
    from mirror.commands import status as verb  # noqa: PLC0415

    views = [verb.read_status(each) for each in _flows(_load(path), flow)]
    well = all(view.well for view in views)
    _answer(
        as_json,
        lambda: {"well": well, "flows": [view.as_dict() for view in views]},
        lambda: "\n\n".join(verb.shown(view, partitions) for view in views),
        well,
    )


@cli.command()
@CONFIG
@FLOW
@click.option(
    "--topic", "topics", metavar="TOPIC", multiple=True, help="Only this topic of the source; may be repeated."
)
@click.option(
    "--differences", "shown", default=20, show_default=True, help="Most differences to show of each partition."
)
@click.option("--strict", is_flag=True, help="Exit with 1 also when some records or topics can't be compared.")
@click.option("--master", metavar="URL", help="Another Spark master than the file's, e.g. local[*].")
@AS_JSON
def verify(
    path: Path, flow: str | None, topics: tuple[str, ...], shown: int, strict: bool, master: str | None, as_json: bool
) -> None:
    """Compare source and target record by record, up to the committed positions: a Spark job.

    It compares key, value, headers, timestamp and order, as read_committed consumers see them. The service may run
    meanwhile. Records that retention has removed from one of the logs can't be compared, nor can compacted topics;
    both are listed. A partition of which nothing was ever copied counts as a difference.

    \b
    Exit codes: 0 all that can be compared is equal, 1 something differs, can't be read, or nothing can be compared;
    with --strict also when something can't be compared; 2 bad use.
    Example: mirror verify -c mirror.yaml --topic orders
    """
    from mirror.commands.verify import command as verb  # noqa: PLC0415  # pyspark is slow to import

    settings = _load(path)
    if master:
        settings = replace(settings, spark=replace(settings.spark, master=master))
        if wrong := list(security.problems(master, settings.spark.conf)):
            raise ConfigError([f"--master {master}: spark.conf.{key}: {text}" for key, text in wrong])
    found = verb.run(settings, _flows(settings, flow), topics, sys.stderr)
    equal = all(each.equal for each in found)
    _answer(
        as_json,
        lambda: {"equal": equal, "flows": [each.as_dict(shown) for each in found]},
        lambda: "\n\n".join(verb.shown(each, shown) for each in found),
        well=equal and (not strict or all(each.whole for each in found)),
    )


@cli.command()
@CONFIG
@FLOW
@AS_JSON
def check(path: Path, flow: str | None, as_json: bool) -> None:
    """Ask both clusters whether a run would work: connections, versions, permissions, limits. Changes nothing.

    \b
    Exit codes: 0 it would (there may be warnings), 1 a check has FAILED, 2 bad use.
    Example: mirror check -c mirror.yaml
    """
    from mirror.commands.check import command as verb  # noqa: PLC0415

    settings = _load(path)
    found = list(verb.check(settings, _flows(settings, flow)))
    failed = any(each.outcome == "FAILED" for each in found)
    _answer(
        as_json,
        lambda: {"failed": failed, "checks": [asdict(each) for each in found]},
        lambda: "\n".join(map(str, found)),
        not failed,
    )


@cli.command()
@CONFIG
@FLOW
@AS_JSON
def plan(path: Path, flow: str | None, as_json: bool) -> None:
    """Show what a run would create, change and copy: a dry run. Changes nothing.

    \b
    Exit codes: 0 shown, 1 a cluster does not answer, 2 bad use.
    Example: mirror plan -c mirror.yaml
    """
    from mirror.commands import plan as verb  # noqa: PLC0415

    found = [verb.dry_run(each) for each in _flows(_load(path), flow)]
    _answer(
        as_json, lambda: {"flows": [asdict(each) for each in found]}, lambda: "\n\n".join(map(verb.shown, found)), True
    )


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the YAML to this file.")
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
    if output is not None:
        verb.save(found, output, force)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        if output is None:
            click.echo(found.text, nl=False)
        click.echo(verb.shown(found), err=True)
    sys.exit(1 if strict and not found.whole else 0)


@cli.command()
@CONFIG
@FLOW
@click.option("--group", metavar="GROUP", help="All committed offsets of this consumer group.")
@click.option("--topic", metavar="TOPIC", help="This topic, by its name on the source.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="This partition of the topic.")
@click.option("--offset", type=click.IntRange(min=0), metavar="OFFSET", help="This offset of the partition.")
@click.option("--reverse", is_flag=True, help="From the target to the source.")
@AS_JSON
def translate(
    path: Path,
    flow: str | None,
    group: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    reverse: bool,
    as_json: bool,
) -> None:
    """Show where an offset of the source is on the target, or the offsets of a consumer group. Changes nothing.

    A consumer that begins there reads the same record next. What is not known exactly is not guessed: the last column
    says why.

    \b
    Exit codes: 0 all are translated, 1 some are not, 2 bad use.
    Example: mirror translate -c mirror.yaml --group billing
    """
    from mirror.commands import translate as verb  # noqa: PLC0415
    from mirror.model import Partition  # noqa: PLC0415

    one = (topic, partition, offset)
    if (group is None) == (None in one) or (group is not None and any(each is not None for each in one)):
        raise click.UsageError("give either --group, or --topic with --partition and --offset")
    chosen = _one_flow(_load(path), flow)
    if group is not None:
        offsets = verb.of_group(chosen, group, reverse)
    else:
        offsets = {Partition(topic or "", partition or 0): offset or 0}
    found = verb.translate(chosen, offsets, reverse)
    _answer(
        as_json,
        lambda: {"flow": chosen.name, "reverse": reverse, "offsets": [each.as_dict() for each in found]},
        lambda: verb.shown(found, reverse) if found else f"{chosen.name}: the group has no offsets of mirrored topics",
        well=all(each.translated is not None for each in found),
    )


@cli.command()
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors.

    \b
    Exit code: 0.
    Example: mirror schema > mirror.schema.json
    """
    from mirror.commands import schema as verb  # noqa: PLC0415

    click.echo(json.dumps(verb.schema(), indent=2))


def _load(path: Path) -> Settings:
    """Load the settings for a short command, which logs only warnings."""
    settings = load(path)
    logs.configure(Log("warning", settings.log.format))
    return settings


def _flows(settings: Settings, name: str | None) -> list[Flow]:
    """The flow with this name, or all flows if there is none. Raises ConfigError for an unknown one."""
    found = [flow for flow in settings.flows if name in (None, flow.name)]
    if not found:
        raise ConfigError([f"--flow {name}: no such flow; there are {', '.join(f.name for f in settings.flows)}"])
    return found


def _one_flow(settings: Settings, name: str | None) -> Flow:
    found = _flows(settings, name)
    if len(found) > 1:
        raise ConfigError([f"--flow is needed, one of {', '.join(flow.name for flow in found)}"])
    return found[0]


def _answer(as_json: bool, for_programs: Callable[[], object], for_people: Callable[[], str], well: bool) -> NoReturn:
    """Print the result as JSON or as text, and exit with 0 if all is well, else with 1."""
    click.echo(json.dumps(for_programs()) if as_json else for_people())
    sys.exit(0 if well else 1)


def main() -> NoReturn:
    """Run the `mirror` command."""
    code = _exit_code()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader of our output has closed it
        code = code or 1
    # Not sys.exit: C's exit handlers free OpenSSL's memory while librdkafka's threads may still use it. Now and then
    # that ends in a SIGSEGV instead of the exit code.
    os._exit(code)


def _exit_code() -> int:
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
