"""The samples as files: one for each format, a list of records with what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RENAMED: Mapping[str, str] = {}  # attributes of mirror's classes, as samples call them: what they are called now
HEX = "hex "  # begins what stands for bytes that are no plain text

Sample = tuple[dict[str, Any], Any]  # a record, and what it means


def plain(value: Any) -> Any:
    """The value of JSON that stands for a value of mirror's: objects by the names of their fields, bytes as texts."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return text if text.isascii() and text.isprintable() and not text.startswith(HEX) else HEX + value.hex()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(plain(each) for each in value)
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def as_bytes(text: str) -> bytes:
    """The bytes that a text of `plain` stands for."""
    return bytes.fromhex(text.removeprefix(HEX)) if text.startswith(HEX) else text.encode("ascii")


def means_at_least(found: Any, kept: Any) -> bool:
    """True if `found`, a value of `plain`, is what was kept. Objects may have more fields than they had then."""
    if isinstance(found, dict) and isinstance(kept, dict):
        now = {RENAMED.get(name, name): each for name, each in kept.items()}
        return all(name in found and means_at_least(found[name], each) for name, each in now.items())
    if isinstance(found, list) and isinstance(kept, list):
        return len(found) == len(kept) and all(map(means_at_least, found, kept))
    return bool(found == kept)


def text_of(samples: list[Sample]) -> str:
    """The text of a format's file."""
    kinds = {bytes: "bytes", str: "text", int: "number", type(None): "null"}
    return (
        json.dumps(
            [
                {
                    "record": {name: {kinds[type(value)]: plain(value)} for name, value in record.items()},
                    "means": plain(means),
                }
                for record, means in samples
            ],
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def samples_in(file: Path) -> list[Sample]:
    """The records of a format's file, and what they mean, as values of `plain`."""
    return [
        (
            {
                name: as_bytes(each["bytes"]) if "bytes" in each else next(iter(each.values()))
                for name, each in of.items()
            },
            means,
        )
        for of, means in ((each["record"], each["means"]) for each in json.loads(file.read_text()))
    ]
