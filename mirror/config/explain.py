"""Turns pydantic's errors into plain sentences that name what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

from pydantic_core import ErrorDetails

from mirror.config import expected, flow_model, value_types
from mirror.config.files import DEFAULTS, Placed
from mirror.config.located_yaml import ENDPOINT, HEADERS, Location, Problem
from mirror.text import printable


class Explainer:
    """Explains errors. Never shows a value where a secret is expected."""

    def __init__(self, is_reference: Callable[[Location], bool]) -> None:
        """`is_reference` is true for the locations of values that were made from `${...}`."""
        self._is_reference = is_reference

    def __call__(self, error: ErrorDetails) -> Problem:
        """The problem of one error of pydantic's."""
        location = error["loc"]
        if not location:
            return Problem(location, error["msg"])  # of the whole file
        if location[-1] == "[key]":
            location = location[:-1]
        # A value is shown only where no secret is expected, neither in it nor in a key of the mapping that it replaces.
        may_be_secret = location[0] in ("clusters", "spark") or HEADERS in location or location == ENDPOINT
        may_be_secret = may_be_secret or location[-1] in ("username", "password") or expected.is_section(location)
        shown = not may_be_secret and not self._is_reference(location)
        return Problem(location, self._text(error, location, shown))

    def _text(self, error: ErrorDetails, location: Location, shown: bool) -> str:
        if error["type"] == "extra_forbidden":
            allowed = list(expected.node(location[:-1])["properties"])
            if location[:-1] == (DEFAULTS,) and location[-1] in flow_model.EndsModel.model_fields:
                return f"each flow has its own {location[-1]}; allowed: {', '.join(allowed)}"
            near = get_close_matches(str(location[-1]), allowed, n=1)
            meant = f'; did you mean "{near[0]}"?' if near else ";"
            return f"unknown key{meant} allowed: {', '.join(allowed)}"
        if error["type"] == value_types.EXPLAINED and not self._is_reference(location):
            return error["msg"]
        must = f"must be {expected.node(location)[value_types.ALLOWED]}"
        if error["type"] == "missing":
            return f"required, but missing; {must}"
        value = error["input"]
        return f'{must}, not "{value:.60}"' if shown and isinstance(value, str) else must


def line(found: Placed) -> str:
    """A problem as one line: file, line, key, text."""
    path, number, key = found.place
    where = [f"{path}:{number}" if number else str(path), key_path(key), found.text]
    return printable(" ".join(": ".join(filter(None, where)).split()))


def key_path(location: Location) -> str:
    """A location as people write it: flows[0].topics."""
    path = ""
    for key in location:
        if isinstance(key, int):
            path += f"[{key}]"
        else:
            # A key is cut at any other character: without the space after its colon it would hold the secret as well.
            name = re.match(r"[\w.-]*", key)
            path += ("." if path else "") + (key if name and name[0] == key else f"{name and name[0]}…")
    return path
