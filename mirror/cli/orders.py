"""Commands that give orders to a running service, or to the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mirror.cli.options import AS_JSON, CONFIG, FLOW, PARTITION, Seconds, answer, chosen_flow, load_quietly
from mirror.control.orders import Scope
from mirror.settings import Flow


def _order_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that pause and resume share."""
    options = [
        CONFIG,
        FLOW,
        click.option("--topic", metavar="TOPIC", help="Only this topic, by its name on the source."),
        click.option("--partition", type=PARTITION, metavar="N", help="Only this partition of the topic."),
        click.option(
            "--timeout",
            default=60.0,
            show_default=True,
            type=Seconds(),
            help="Seconds to wait until the tasks obey.",
        ),
        AS_JSON,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_order_options
def pause(**options: Any) -> None:
    """Stop copying a flow, a topic or a partition, until it is resumed.

    Open transactions are finished, positions stay, and everything else is copied on. The order survives restarts and
    holds for new partitions, too. A later order replaces all earlier ones for the flow, topic or partition it names.

    \b
    Exit codes: 0 paused (or it will be when a service runs), 1 not obeyed in time, or a cluster does not answer,
    2 bad use.
    Example: mirror pause -c mirror.yaml --topic orders
    """
    _order(paused=True, **options)


@click.command()
@_order_options
@click.option(
    "--skip-lost",
    is_flag=True,
    help="Continue after records that block partitions now: lost on the source, or refused by the target.",
)
@click.option("--continue", "go_on", is_flag=True, help="Continue after what was copied.")
@click.option(
    "--from-start", is_flag=True, help="Copy everything that the source has again; records that were copied stay."
)
@click.option(
    "--at", "offset", type=click.IntRange(min=0), metavar="OFFSET", help="Continue at this offset of the source."
)
def resume(skip_lost: bool, go_on: bool, from_start: bool, offset: int | None, **options: Any) -> None:
    """Copy a flow, a topic or a partition again, from where it was paused; or decide about what blocks it.

    With --skip-lost, partitions continue after records that the source has lost or the target refuses. --continue,
    --from-start and --at are for partitions whose position or remote topic has vanished or was changed. Each decides
    only about what blocks partitions now: for later cases see on_data_loss, on_poison_record, append_to_existing. A
    decision resumes nothing: partitions that are paused stay paused.

    \b
    Exit codes: 0 resumed or decided (or it will be when a service runs), also if nothing waits for the decision,
    1 not obeyed in time, or a cluster does not answer, 2 bad use.
    Example: mirror resume -c mirror.yaml --topic orders --partition 3
    """
    chosen = {"skip": skip_lost, "continue": go_on, "start": from_start, "at": offset is not None}
    choices = [choice for choice, is_chosen in chosen.items() if is_chosen]
    if len(choices) > 1:
        raise click.UsageError("only one of --skip-lost, --continue, --from-start and --at can be given")
    if offset is not None and options["partition"] is None:
        raise click.UsageError("--at needs --topic and --partition")
    if choices:
        _decide(choice=choices[0], offset=-1 if offset is None else offset, **options)
    else:
        _order(paused=False, **options)


def _order(paused: bool, timeout: float, as_json: bool, **options: Any) -> None:
    from mirror.commands.pause import give_order  # noqa: PLC0415

    outcome = give_order(*_asked(**options), paused, timeout)
    answer(as_json, outcome.as_dict, lambda: str(outcome), well=not outcome.failed)


def _decide(choice: Any, offset: int, timeout: float, as_json: bool, **options: Any) -> None:
    from mirror.commands.decide import decide  # noqa: PLC0415

    outcome = decide(*_asked(**options), choice, offset, timeout)
    answer(as_json, outcome.as_dict, lambda: str(outcome), well=not outcome.failed)


def _asked(paths: tuple[Path, ...], flow: str | None, topic: str | None, partition: int | None) -> tuple[Flow, Scope]:
    """The flow, and what of it the options name."""
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    return chosen_flow(load_quietly(paths), flow), Scope(topic, partition)
