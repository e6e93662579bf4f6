"""`mirror schema`: the JSON schema of the configuration file, for editors."""

from __future__ import annotations

from typing import Any

from mirror.config.load import json_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = {"type": "string", "pattern": r"\$\{(env|file):[^}]+\}"}
WORDS = ("title", "description", "default")


def schema() -> dict[str, Any]:
    """What the file may hold. A `${env:...}` or `${file:...}` may stand for any single value.

    What goes beyond one value, such as an undefined cluster, is for `mirror validate` to find.
    """
    found = json_schema()
    models = [found, *found["$defs"].values()]
    for model in models:
        model["properties"] = {key: _or_reference(node) for key, node in model["properties"].items()}
    return {"$schema": DIALECT, **found, "title": "mirror's configuration"}


def _or_reference(node: dict[str, Any]) -> dict[str, Any]:
    single = node.get("type") not in ("object", "array") and "$ref" not in node
    if not single or ("type" in node and node["type"] == "string" and not node.keys() & {"enum", "pattern"}):
        return node
    words = {key: node[key] for key in WORDS if key in node}
    value = {key: each for key, each in node.items() if key not in WORDS}
    return {**words, "anyOf": [*(value.get("anyOf") or [value]), REFERENCE]}
