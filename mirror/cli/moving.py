"""Commands that move a flow over from another tool, and back."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from mirror.cli.options import AS_JSON, CONFIG, FLOW, Seconds, answer, chosen_flow, load_quietly

WORKER_GROUP = click.option(
    "--worker-group", metavar="GROUP", help="The group.id of MirrorMaker's workers. [default: <source>-mm2]"
)
TASKS = click.option(
    "--tasks",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="Fence so many tasks of MirrorMaker, besides those that the target lists.",
)
NO_GROUP = "--offsets-topic needs --worker-group: the group.id of the Connect cluster"


@click.command()
@CONFIG
@FLOW
@click.option(
    "--offsets-topic",
    metavar="TOPIC",
    help="Connect's offsets topic on the target, if MirrorMaker runs on a Connect cluster. "
    "[default: mm2-offsets.<source>.internal]",
)
@WORKER_GROUP
@click.option("--connector", default="MirrorSourceConnector", show_default=True, help="The connector's name.")
@TASKS
@click.option(
    "--compare",
    default=1000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Records of each partition that are compared on both sides.",
)
@click.option(
    "--quiet",
    default=10.0,
    show_default=True,
    type=Seconds(),
    help="Seconds in which MirrorMaker's workers have to leave their group and, if it has run without exactly-once, "
    "nothing may come to the copy.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and fence nobody.")
@AS_JSON
def adopt(
    paths: tuple[Path, ...],
    flow: str | None,
    offsets_topic: str | None,
    worker_group: str | None,
    connector: str,
    tasks: int | None,
    compare: int,
    quiet: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take the positions of MirrorMaker 2 over, so that mirror copies the next record first.

    MirrorMaker and mirror must have stopped. Before it commits a position, it compares the last records of the copy
    with those of the source. If MirrorMaker has copied more than it has recorded, the records tell the position. What
    can't be decided is refused, and mirror then blocks the partition. Partitions that mirror has copied are left alone.

    \b
    Exit codes: 0 all are adopted or there is nothing to do, 1 some are refused, MirrorMaker or mirror runs, or a
    cluster does not answer; 2 bad use.
    Example: mirror adopt -c mirror.yaml --dry-run
    """
    from mirror.commands.adopt import command as verb  # noqa: PLC0415

    if offsets_topic is not None and worker_group is None:
        raise click.UsageError(NO_GROUP)
    options = verb.Options(connector, worker_group, offsets_topic, tasks, compare, quiet, dry_run)
    found = verb.adopt(chosen_flow(load_quietly(paths), flow), options, sys.stderr)
    answer(as_json, found.as_dict, lambda: verb.shown(found), found.well)


@click.command()
@CONFIG
@FLOW
@click.option(
    "--offsets-topic",
    metavar="TOPIC",
    help="Connect's offsets topic on the target, if MirrorMaker runs on a Connect cluster. "
    "[default: mirrormaker_offsets.topic of the flow]",
)
@WORKER_GROUP
@click.option("--connector", help="The connector's name. [default: mirrormaker_offsets.connector of the flow]")
@TASKS
@click.option(
    "--quiet",
    default=10.0,
    show_default=True,
    type=Seconds(),
    help="Seconds in which MirrorMaker's workers have to leave their group and, on a Connect cluster, with "
    "exactly_once: false or if there is no task of MirrorMaker to fence, nothing may come to the copy.",
)
@click.option("--overwrite", is_flag=True, help="Also hand back where MirrorMaker's own position is further.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and fence nobody.")
@AS_JSON
def hand_back(
    paths: tuple[Path, ...],
    flow: str | None,
    offsets_topic: str | None,
    worker_group: str | None,
    connector: str | None,
    tasks: int | None,
    quiet: float,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Hand positions back to MirrorMaker 2, so that it copies the next record first.

    mirror and MirrorMaker must have stopped; after a crash of mirror this is exact, too. It fences mirror's tasks,
    waits until their transactions have ended, and writes each position to Connect's offsets topic. From then on mirror
    blocks these partitions, until `mirror adopt` takes them over again.

    \b
    Exit codes: 0 all are handed back or there is nothing to do, 1 some are refused, MirrorMaker or mirror runs, or a
    cluster does not answer; 2 bad use.
    Example: mirror hand-back -c mirror.yaml --dry-run
    """
    from mirror.commands.hand_back import command as verb  # noqa: PLC0415

    chosen = chosen_flow(load_quietly(paths), flow)
    own = chosen.mirrormaker_offsets
    wanted = replace(own, topic=offsets_topic or own.topic, connector=connector or own.connector)
    if wanted.topic is not None and worker_group is None:
        raise click.UsageError(NO_GROUP)
    options = verb.Options(worker_group, tasks, quiet, overwrite, dry_run)
    found = verb.hand_back(replace(chosen, mirrormaker_offsets=wanted), options, sys.stderr)
    answer(as_json, found.as_dict, lambda: verb.shown(found), found.well)
