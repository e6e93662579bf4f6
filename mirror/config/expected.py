"""What the model expects at each place of the configuration, from its JSON schema."""

from __future__ import annotations

from functools import cache
from typing import Any

from mirror.config.located_yaml import Location
from mirror.config.model import RootModel
from mirror.config.value_types import ALLOWED


@cache
def _schema() -> dict[str, Any]:
    return RootModel.model_json_schema()


def node(location: Location) -> dict[str, Any]:
    """The part of the schema for a location; empty if the model has no such key."""
    found = _schema()
    for key in location:
        found = found.get("properties", {}).get(key) or found.get("items") or found.get("additionalProperties") or {}
        if "$ref" in found:
            target = _schema()["$defs"][found["$ref"].rpartition("/")[2]]
            words = f"a mapping with the keys {', '.join(target['properties'])}"
            found = {**target, ALLOWED: found.get(ALLOWED, words)}
    return found


def is_section(location: Location) -> bool:
    """True if a mapping is expected."""
    return node(location).get("type") == "object"


def may_be_null(location: Location) -> bool:
    """True if null is a value, which is then the default."""
    return {"type": "null"} in node(location).get("anyOf", ())


def is_named_freely(location: Location) -> bool:
    """True if the key is any name, such as a property of Spark's, and not one of the model's."""
    parent = node(location[:-1])
    return location[-1] not in parent.get("properties", {}) and bool(parent.get("additionalProperties"))
