"""`mirror config`: every setting as it is in effect, with where it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mirror.config.load import checked
from mirror.config.resolved import Setting, Tree, resolved
from mirror.text import printable


def resolve(paths: Sequence[Path], environ: Mapping[str, str] = os.environ) -> Tree:
    """All settings of the files. Raises ConfigError if they are not valid."""
    files, root = checked(paths, environ)
    return resolved(root, files)


def as_dict(tree: Tree) -> Any:
    """The settings for programs: an object with value and origin for each, durations in seconds and sizes in bytes."""
    if isinstance(tree, Setting):
        return {"value": tree.value, "origin": tree.origin}
    if isinstance(tree, tuple):
        return [as_dict(each) for each in tree]
    return {key: as_dict(each) for key, each in tree.items()}


def shown(tree: Tree) -> str:
    """The settings as YAML, each with its origin in a comment."""
    return "\n".join(_lines(tree))


def _lines(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _entry(_flow_style(key), value)
    elif isinstance(tree, tuple):
        for each in tree:
            first, *others = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)


def _entry(key: str, value: Tree) -> Iterator[str]:
    if isinstance(value, Setting):
        yield f"{key}: {_flow_style(value.written)} # {printable(value.origin)}"
    else:
        yield f"{key}:"
        yield from (f"  {line}" for line in _lines(value))


def _flow_style(value: Any) -> str:
    """A value in one line, as it may stand anywhere in YAML."""
    return yaml.safe_dump([value], default_flow_style=True, width=2**31).strip()[1:-1]
