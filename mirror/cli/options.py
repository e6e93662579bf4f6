"""The options that several commands share, and what follows from them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from mirror import logs
from mirror.config.load import load
from mirror.decode import INT32_MAX
from mirror.errors import ConfigError
from mirror.service_settings import Log, Settings
from mirror.settings import Flow
from mirror.text import printable

CONFIG = click.option(
    "-c",
    "--config",
    "paths",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The YAML configuration; see config.example.yaml. May be repeated: later files win.",
)
FLOW = click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow, e.g. 'primary->backup'.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


class Seconds(click.FloatRange):
    """A number of seconds that can pass. To click, `nan` lies in each range, and `inf` in each without a maximum."""

    def __init__(self, least: float = 0, most: float | None = None) -> None:
        super().__init__(min=least, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number. An error of click's ends the command with exit code 2."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


PARTITION = click.IntRange(0, INT32_MAX)


def load_quietly(paths: Sequence[Path]) -> Settings:
    """Load the settings for a short command, which logs only warnings."""
    settings = load(paths)
    logs.configure(Log("warning", settings.log.format))
    return settings


def chosen_flows(settings: Settings, name: str | None) -> list[Flow]:
    """The flow with this name, or all flows if there is none. Raises ConfigError for an unknown one."""
    found = [flow for flow in settings.flows if name in (None, flow.name)]
    if not found:
        raise ConfigError([f"--flow {name}: no such flow; there are {', '.join(f.name for f in settings.flows)}"])
    return found


def chosen_flow(settings: Settings, name: str | None) -> Flow:
    """The flow with this name, or the only one. Raises ConfigError for an unknown one, or if there are more."""
    found = chosen_flows(settings, name)
    if len(found) > 1:
        raise ConfigError([f"--flow is needed, one of {', '.join(flow.name for flow in found)}"])
    return found[0]


def answer(as_json: bool, for_programs: Callable[[], object], for_people: Callable[[], str], well: bool) -> NoReturn:
    """Print the result as JSON or as text, and exit with 0 if all is well, else with 1."""
    if as_json:
        click.echo(json.dumps(for_programs()))
    else:
        tell(for_people())
    sys.exit(0 if well else 1)


def tell(text: str) -> None:
    """Print lines for people. They can't steer the terminal: whoever may write to a cluster chooses names there."""
    click.echo("\n".join(map(printable, text.split("\n"))))
