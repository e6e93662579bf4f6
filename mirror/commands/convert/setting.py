"""One row of the table of MirrorMaker 2's settings, and how names are looked up in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Fate = Literal["same", "renamed", "different", "not needed", "not there yet", "not possible"]

# The later ones weigh more, where one key has several.
FATES: tuple[Fate, ...] = ("not needed", "same", "renamed", "different", "not there yet", "not possible")
CARRIED: frozenset[Fate] = frozenset({"same", "renamed", "different"})
MISSING: frozenset[Fate] = frozenset({"not there yet", "not possible"})

# Reasons that rows of several tables have.
NAMES = "a name without special characters is a name, where MirrorMaker's . matches any character"
NO_GROUP = "no consumer joins a group"
OWN_CLASS = "mirror runs no Java classes"
OWN_TRANSFORM = "mirror runs no Java classes; a Python callable can take its place: see flows[].transform"

MEANINGS: Mapping[Fate, str] = {
    "same": "carried under the same name",
    "renamed": "carried under another name",
    "different": "carried, and it does not mean quite the same",
    "not needed": "not carried, because mirror works without it",
    "not there yet": "mirror does not do this yet",
    "not possible": "mirror can't do this, or a person has to",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of MirrorMaker 2 and what becomes of it, unless its value says otherwise."""

    name: str  # with * at the end: every name that begins so
    default: str  # MirrorMaker's, for people; empty if it has none
    fate: Fate
    ours: str = ""  # mirror's keys, for people
    why: str = ""  # a sentence without its full stop


def look_up(table: Mapping[str, Setting], name: str) -> Setting | None:
    """The row of a setting: by its name, else the one with the longest beginning that fits."""
    if name in table:
        return table[name]
    fitting = [key for key in table if key.endswith("*") and name.startswith(key[:-1])]
    return table[max(fitting, key=len)] if fitting else None


def by_name(rows: Iterable[Setting]) -> dict[str, Setting]:
    """The rows by name. Each name must be there once."""
    found: dict[str, Setting] = {}
    for row in rows:
        assert row.name not in found, row.name
        found[row.name] = row
    return found
