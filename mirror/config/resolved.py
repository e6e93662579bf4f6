"""Every setting as it is in effect, with where it comes from, for people and programs. Secrets are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from mirror.config.files import DEFAULTS, FLOWS, Files
from mirror.config.flow_model import FlowModel
from mirror.config.located_yaml import ENDPOINT, HEADERS, SECRET, Location
from mirror.config.model import RootModel
from mirror.config.value_types import seconds, size

HIDDEN = "(hidden)"
DEFAULT = "default"

_DURATIONS = (("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001))
_SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))

# A password within a value: an assignment, such as one of Java's options, or a URL.
_ASSIGNED = re.compile(rf"(?:{SECRET.pattern})[\w.-]*[ \t]*[=:]", re.IGNORECASE)
_USER = re.compile(r"//[^/\s@]+@")

_NO_SECRETS = ("", "/", "/v1/metrics")  # paths that an endpoint has with any collector


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `value` is in seconds and bytes, `written` as a file has it."""

    value: Any
    written: Any
    origin: str


Tree = Setting | Mapping[str, "Tree"] | tuple["Tree", ...]


def written(field: FieldInfo, value: Any) -> Any:
    """A value of the field as a file has it, with a unit."""
    validators = [each.func for each in field.metadata if isinstance(each, BeforeValidator)]
    if seconds in validators:
        return _with_unit(value, _DURATIONS)
    return _with_unit(value, _SIZES) if size in validators else value


def _with_unit(value: float, units: Iterable[tuple[str, float]]) -> Any:
    for unit, factor in units:
        if value >= factor and round(value / factor, 9) % 1 == 0:
            return f"{round(value / factor)}{unit}"
    return value


def resolved(root: RootModel, files: Files) -> Tree:
    """All settings. flow_defaults is not among them, since each flow shows what it takes from there."""
    tree = _Resolver(files).model(root, ())
    return {key: value for key, value in tree.items() if key != DEFAULTS}


class _Resolver:
    """Walks through the model, and asks the files where each value is written."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def model(self, model: BaseModel, at: Location) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for name, field in type(model).model_fields.items():
            key = field.alias or name
            found[key] = self._value(getattr(model, name), (*at, key), field)
        if isinstance(model, FlowModel) and model.group is None:
            found["group"] = self._group(model, at)
        for key, value in (model.__pydantic_extra__ or {}).items():
            found[key] = self._property(value, (*at, key))
        return found

    def _value(self, value: Any, at: Location, field: FieldInfo) -> Tree:
        if isinstance(value, BaseModel):
            return self.model(value, at)
        if at == (FLOWS,):
            return tuple(self.model(flow, (*at, number)) for number, flow in enumerate(value))
        if isinstance(value, dict) and value:
            return {key: self._entry(each, (*at, key)) for key, each in value.items()}
        if isinstance(value, list):
            shown = [HIDDEN if self._hides((*at, number)) else each for number, each in enumerate(value)]
            return Setting(shown, shown, self._origin(at))
        if value is not None and (at[-1] == "password" or self._hides(at) or _holds_secret(value)):
            return Setting(HIDDEN, HIDDEN, self._origin(at))
        if value is not None and at == ENDPOINT:
            value = _without_path(value)
        return Setting(value, written(field, value), self._origin(at))

    def _entry(self, value: Any, at: Location) -> Tree:
        """A cluster, or a property of clients or of Spark."""
        return self.model(value, at) if isinstance(value, BaseModel) else self._property(value, at)

    def _property(self, value: str, at: Location) -> Setting:
        secret = HEADERS in at or SECRET.search(str(at[-1])) or _holds_secret(value) or self._hides(at)
        shown = HIDDEN if secret else value
        return Setting(shown, shown, self._origin(at))

    def _group(self, flow: FlowModel, at: Location) -> Setting:
        ends_hidden = any(self._hides((*at, end)) for end in ("source", "target"))
        shown = HIDDEN if ends_hidden else flow.position_group
        return Setting(shown, shown, self._origin((*at, "group")))

    def _hides(self, at: Location) -> bool:
        return self._files.has(at) and self._files.is_reference(at)

    def _origin(self, at: Location) -> str:
        if not self._files.has(at):
            return DEFAULT
        place = self._files.place(at)
        where = f"{place.path}:{place.line}" if place.line else str(place.path)
        return f"{DEFAULTS} {where}" if self._files.is_default(at) else where


def _without_path(url: str) -> str:
    """An endpoint without what may be a token: its path, unless that is a usual one, and all that is not its server."""
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return server + (parts.path if parts.path in _NO_SECRETS else f"/{HIDDEN}")


def _holds_secret(value: Any) -> bool:
    return isinstance(value, str) and (_ASSIGNED.search(value) or _USER.search(value)) is not None
