"""Commands that ask the clusters, and change nothing."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import click

from mirror.cli.options import AS_JSON, CONFIG, FLOW, PARTITION, answer, chosen_flow, chosen_flows, load_quietly, tell
from mirror.errors import ConfigError, MirrorError
from mirror.spark import security


@click.command()
@CONFIG
@FLOW
@click.option("--acls", is_flag=True, help="Print kafka-acls.sh commands that allow what mirror needs, and no more.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["run", "operate", "adopt", "hand-back"]),
    default="run",
    show_default=True,
    help="With --acls, what to allow: a service, a person who runs status, pause and resume, or a service and one of "
    "these commands.",
)
@AS_JSON
def check(paths: tuple[Path, ...], flow: str | None, acls: bool, purpose: str, as_json: bool) -> None:
    """Ask both clusters whether a run would work: connections, versions, permissions, limits. Changes nothing.

    With --acls it tests nothing. It asks the source for its topics and groups, and prints what to allow on
    each cluster.

    \b
    Exit codes: 0 it would (there may be warnings), 1 a check has FAILED, 2 bad use.
    Example: mirror check -c mirror.yaml
    """
    from mirror.commands.check import command as verb  # noqa: PLC0415
    from mirror.commands.check import permissions, purposes  # noqa: PLC0415

    if purpose != purposes.Purpose.RUN and not acls:
        raise click.UsageError("--for says what --acls prints; add --acls")
    settings = load_quietly(paths)
    if acls:
        what = purposes.Purpose(purpose)
        needed = [(each, purposes.asked_for(each, what)) for each in chosen_flows(settings, flow)]
        answer(
            as_json,
            lambda: {"commands": [line for _, some in needed for need in some for line in permissions.commands(need)]},
            lambda: permissions.script(needed),
            well=True,
        )
        return
    found = []
    for each in verb.check(settings, chosen_flows(settings, flow)):
        found.append(each)
        if not as_json:
            tell(str(each))  # at once: a cluster that does not answer takes its time
    failed = any(each.outcome == "FAILED" for each in found)
    if as_json:
        click.echo(json.dumps({"failed": failed, "checks": [asdict(each) for each in found]}))
    sys.exit(1 if failed else 0)


@click.command()
@CONFIG
@FLOW
@AS_JSON
def plan(paths: tuple[Path, ...], flow: str | None, as_json: bool) -> None:
    """Show what a run would create, change and copy: a dry run. Changes nothing.

    \b
    Exit codes: 0 shown, 1 a cluster does not answer, 2 bad use.
    Example: mirror plan -c mirror.yaml
    """
    from mirror.commands.plan.as_text import shown  # noqa: PLC0415
    from mirror.commands.plan.dry_run import dry_run  # noqa: PLC0415

    settings = load_quietly(paths)
    found = [dry_run(each, settings.warned(each)) for each in chosen_flows(settings, flow)]
    answer(as_json, lambda: {"flows": [asdict(each) for each in found]}, lambda: "\n\n".join(map(shown, found)), True)


@click.command()
@CONFIG
@FLOW
@click.option("--partitions", is_flag=True, help="Show a line for each partition instead of each topic.")
@click.option(
    "--groups",
    is_flag=True,
    help="Also show the source's consumer groups, and where they are on the target, as the clusters answer now. When "
    "the service's last group round ended is on its page and in mirror_group_round_timestamp_seconds.",
)
@click.option("--configs", is_flag=True, help="Also show where configurations of remote topics are not in step.")
@click.option("--acls", is_flag=True, help="Also show ACLs of source topics that the target lacks, and why.")
@AS_JSON
def status(
    paths: tuple[Path, ...],
    flow: str | None,
    partitions: bool,
    groups: bool,
    configs: bool,
    acls: bool,
    as_json: bool,
) -> None:
    """Show the state of flows as their tasks report it on the target: works from anywhere, without HTTP.

    \b
    Exit codes: 0 all is well, 1 a partition is retrying, blocked or silent, or a flow does not run, 2 bad use.
    Example: mirror status -c mirror.yaml --partitions
    """
    from mirror.commands import acl_status, config_status, group_status  # noqa: PLC0415
    from mirror.commands import status as verb  # noqa: PLC0415

    chosen = chosen_flows(load_quietly(paths), flow)
    views = [verb.read_status(each) for each in chosen]
    texts = [[verb.shown(view, partitions)] for view in views]
    listed = [view.as_dict() for view in views]
    for each, text, as_dict in zip(chosen, texts, listed, strict=True):
        if groups:
            groups_found = group_status.read_groups(each)
            text.append(group_status.shown(groups_found))
            as_dict["groups"] = groups_found.as_dict()
        if configs:
            configs_found = config_status.read_configs(each)
            text.append(config_status.shown(configs_found))
            as_dict["configs"] = configs_found.as_dict()
        if acls:
            acls_found = acl_status.read_acls(each)
            text.append(acl_status.shown(acls_found))
            as_dict["acls"] = acls_found.as_dict()
    well = all(view.well for view in views)
    said = "\n\n".join(part for text in texts for part in text)
    answer(as_json, lambda: {"well": well, "flows": listed}, lambda: said, well)


@click.command()
@CONFIG
@FLOW
@click.option(
    "--topic", "topics", metavar="TOPIC", multiple=True, help="Only this topic of the source; may be repeated."
)
@click.option(
    "--differences",
    "shown",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="Most differences to show of each partition.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also when some records or topics can't be compared.")
@click.option("--master", metavar="URL", help="Another Spark master than the file's, e.g. local[*].")
@AS_JSON
def verify(
    paths: tuple[Path, ...],
    flow: str | None,
    topics: tuple[str, ...],
    shown: int,
    strict: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Compare source and target record by record, up to the committed positions: a Spark job.

    It compares key, value, headers, timestamp and order, as read_committed consumers see them. The service may run
    meanwhile. Records that retention has removed from one of the logs can't be compared, nor can compacted topics;
    both are listed. A partition that can't be read has a reason, and the others are compared. A partition of which
    nothing was ever copied counts as a difference, and so does one of the remote topic that the source does not have.
    A topic whose transform depends on more than the record is not comparable, and counts as not equal.

    \b
    Exit codes: 0 all that can be compared is equal, 1 something differs, can't be read, or nothing can be compared;
    with --strict also when something can't be compared; 2 bad use.
    Example: mirror verify -c mirror.yaml --topic orders
    """
    from mirror.commands.verify import command as verb  # noqa: PLC0415  # pyspark is slow to import

    settings = load_quietly(paths)
    if master:
        if not security.is_master(master):
            raise ConfigError([f"--master {master}: must be a Spark master, e.g. local[*] or spark://host:7077"])
        settings = replace(settings, spark=replace(settings.spark, master=master))
        if wrong := list(security.problems(master, settings.spark.conf)):
            raise ConfigError([f"--master {master}: spark.conf.{key}: {text}" for key, text in wrong])
    found = verb.run(settings, chosen_flows(settings, flow), topics, sys.stderr)
    equal = all(each.equal for each in found)
    answer(
        as_json,
        lambda: {"equal": equal, "flows": [each.as_dict(shown) for each in found]},
        lambda: "\n\n".join(verb.shown(each, shown) for each in found),
        well=equal and (not strict or all(each.whole for each in found)),
    )


@click.command()
@CONFIG
@FLOW
@click.option("--group", metavar="GROUP", help="All committed offsets of this consumer group.")
@click.option("--topic", metavar="TOPIC", help="This topic, by its name on the source.")
@click.option("--partition", type=PARTITION, metavar="N", help="This partition of the topic.")
@click.option("--offset", type=click.IntRange(min=0), metavar="OFFSET", help="This offset of the partition.")
@click.option("--reverse", is_flag=True, help="From the target to the source.")
@AS_JSON
def translate(
    paths: tuple[Path, ...],
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
    Exit codes: 0 all are translated, 1 some are not, or the group has no offsets; 2 bad use.
    Example: mirror translate -c mirror.yaml --group billing
    """
    from mirror.commands import translate as verb  # noqa: PLC0415
    from mirror.model import Partition  # noqa: PLC0415

    one = (topic, partition, offset)
    if (group is None) == (None in one) or (group is not None and any(each is not None for each in one)):
        raise click.UsageError("give either --group, or --topic with --partition and --offset")
    chosen = chosen_flow(load_quietly(paths), flow)
    if group is not None:
        offsets = verb.of_group(chosen, group, reverse)
        if not (offsets.offsets or offsets.refused):
            raise MirrorError(verb.no_offsets(chosen, group, reverse))
        found = verb.translate(chosen, offsets, reverse)
    else:
        found = verb.translate(chosen, {Partition(topic or "", partition or 0): offset or 0}, reverse)
    answer(
        as_json,
        lambda: {"flow": chosen.name, "reverse": reverse, "offsets": [each.as_dict() for each in found]},
        lambda: verb.shown(found, reverse),
        well=all(each.translated is not None for each in found),
    )
