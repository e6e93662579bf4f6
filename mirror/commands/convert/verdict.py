"""What becomes of one item: a fate with its reason, and the values that it puts into our file. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mirror.commands.convert.entries import FlowName
from mirror.commands.convert.setting import Fate, Setting

Value = str | int | bool | list[str]
# ("clusters", "a", "consumer", "client.rack"), ("flows", ("a", "b"), "start"), ("flows", ("a", "b"), "groups", "sync")
Place = tuple[str | FlowName, ...]


class Put(NamedTuple):
    """A value of our file. `raw` text is written as it is: it is one of our references."""

    place: Place
    value: Value
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fate of one item."""

    fate: Fate
    why: str = ""
    puts: tuple[Put, ...] = ()


def of_table(setting: Setting, why: str = "") -> Verdict:
    """What the table says, for a setting whose value puts nothing into the file."""
    return Verdict(setting.fate, why or setting.why)


def not_possible(why: str) -> Verdict:
    """A value that can't be carried."""
    return Verdict("not possible", why)
