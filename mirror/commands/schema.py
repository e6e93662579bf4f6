"""`mirror schema`: the JSON schema of the configuration file, for editors."""

from __future__ import annotations

from typing import Any

from mirror.config.load import json_schema
from mirror.config.value_types import ALLOWED

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = {"type": "string", "pattern": r"\$\{(env|file):[^}]+\}"}
KEPT_OUTSIDE = ("title", "description", "default")  # belong to the key, not to one of its alternatives


def schema() -> dict[str, Any]:
    """The JSON schema. It allows `${env:...}` and `${file:...}` in place of any single value.

    It checks each value by itself. What takes more than one, such as an undefined cluster, `mirror validate` finds.
    """
    found = _described(json_schema())
    models = [found, *found["$defs"].values()]
    for model in models:
        model["properties"] = {key: _or_reference(node) for key, node in model["properties"].items()}
    return {"$schema": DIALECT, **found, "title": "mirror's configuration"}


def _described(node: Any) -> Any:
    """The node, with what is allowed at the end of each description: editors show nothing else."""
    if isinstance(node, list):
        return [_described(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _described(each) for key, each in node.items()}
    if isinstance(found.get("description"), str):
        found["description"] = " ".join(found["description"].split())
    if isinstance(found.get(ALLOWED), str):
        found["description"] = f"{found.get('description', '')} Must be {found.pop(ALLOWED)}.".strip()
    return found


def _or_reference(node: dict[str, Any]) -> dict[str, Any]:
    single = node.get("type") not in ("object", "array") and "$ref" not in node
    if not single or ("type" in node and node["type"] == "string" and not node.keys() & {"enum", "pattern"}):
        return node
    outside = {key: node[key] for key in KEPT_OUTSIDE if key in node}
    value = {key: each for key, each in node.items() if key not in KEPT_OUTSIDE}
    return {**outside, "anyOf": [*(value.get("anyOf") or [value]), REFERENCE]}
