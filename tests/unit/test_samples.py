"""What any release has written to topics is read for ever, and what a newer one may write is met as it is said here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from mirror import __version__, errors
from mirror.decode import DecodeError
from mirror.model import Position
from tests.samples import releases
from tests.samples.files import FOLDER, Sample, means_at_least, plain, samples_in, text_of
from tests.samples.formats import FORMATS

VERSIONS = sorted(each.name for each in FOLDER.iterdir() if each.is_dir() and each.name[0].isdigit())
AGAIN = "before the release of this version: python -m tests.samples; after it: raise the version"
# Whoever reads these by something other than the names of JSON's fields.
BINARY = {
    "offset-map",
    "offset-sync",
    "checkpoint",
    "heartbeat",
    "dead-letter",
    "provenance",
    "names",
    "connect-offset",
}
JSON = sorted(FORMATS.keys() - BINARY)
HOLDERS = {"position": "metadata"}  # where the JSON stands, if not in the value


def kept() -> list[tuple[str, str]]:
    """Each format of each version."""
    return [(version, file.stem) for version in VERSIONS for file in sorted((FOLDER / version).glob("*.json"))]


def samples(version: str, name: str) -> list[Sample]:
    return samples_in(FOLDER / version / f"{name}.json")


@pytest.mark.parametrize(("version", "name"), kept())
def test_todays_mirror_reads_what_every_version_wrote(version: str, name: str) -> None:
    for record, means in samples(version, name):
        found = plain(FORMATS[name].read(record))
        assert means_at_least(found, means), f"{version} {name}: {found} was {means}"


@pytest.mark.parametrize(("version", "name"), [(v, n) for v, n in kept() if FORMATS[n].fixed])
def test_what_others_read_has_the_same_bytes_in_every_version(version: str, name: str) -> None:
    for record, _ in samples(version, name):
        assert FORMATS[name].write(FORMATS[name].read(record)) == record


def test_this_version_has_a_sample_of_each_of_its_formats() -> None:
    folder = FOLDER / __version__
    assert {file.stem for file in folder.glob("*.json")} == FORMATS.keys(), AGAIN
    for name, kind in FORMATS.items():
        written = [(dict(record), kind.read(record)) for record in map(kind.write, kind.samples)]
        assert (folder / f"{name}.json").read_text() == text_of(written), f"{name}: {AGAIN}"


def parts(value: Any) -> Iterator[Any]:
    """The objects with fields in a value of mirror's."""
    if is_dataclass(value):
        yield value
        yield from parts([getattr(value, each.name) for each in fields(value)])
    elif isinstance(value, Mapping | tuple | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from parts(each)


def test_every_field_that_may_be_missing_has_a_sample_with_another_value_than_its_default() -> None:
    """Without such a sample nothing would show that the field is read."""
    unused: set[str] = set()
    used = {"TopicSettings.transform"}  # tasks take no code from the control topic
    for part in parts([kind.samples for kind in FORMATS.values()]):
        for each in fields(part):
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if default is not MISSING:
                name = f"{type(part).__name__}.{each.name}"
                (unused if getattr(part, each.name) == default else used).add(name)
    assert len(used) > 40 and not unused - used


def raised(version: str, name: str, record: dict[str, Any], change: Any) -> dict[str, Any]:
    """A record whose JSON somebody has changed."""
    holder = HOLDERS.get(name, "value")
    text = record[holder]
    changed = json.dumps(change(json.loads(text)))
    return {**record, holder: changed.encode() if isinstance(text, bytes) else changed}


@pytest.mark.parametrize(("version", "name"), [(v, n) for v, n in kept() if n in JSON])
def test_fields_that_a_newer_mirror_adds_are_passed_over(version: str, name: str) -> None:
    for record, means in samples(version, name):
        newer = raised(version, name, record, lambda told: {**told, "added_later": {"x": [1, None]}})
        assert means_at_least(plain(FORMATS[name].read(newer)), means)


@pytest.mark.parametrize("name", [name for name in JSON if name not in ("position", "plan", "intent")])
def test_a_record_without_a_field_that_is_needed_is_malformed(name: str) -> None:
    """The reader of its topic logs that and goes on, as the tests of the readers show.

    Plans and positions have tests of their own.
    """
    record, _ = samples(__version__, name)[0]
    newer = raised(__version__, name, record, lambda told: {"other": told})
    with pytest.raises(DecodeError):
        FORMATS[name].read(newer)


def test_a_position_of_an_unknown_form_is_a_strangers() -> None:
    """Its partition is blocked until a person decides, and nothing is copied from there."""
    record, means = samples(__version__, "position")[1]
    for metadata in ("", "v2:AAAA", '{"id":"x"}', '{"topic_id":7}'):
        found = FORMATS["position"].read({**record, "metadata": metadata})
        assert isinstance(found, Position) and found == Position(means["offset"], "", means["epoch"])


@pytest.mark.parametrize("part", ["key", "value"])
def test_an_entry_of_the_map_with_another_version_is_malformed(part: str) -> None:
    """Its reader counts it and goes on, and translates no offset there: the next entry says which one it follows."""
    record, _ = samples(__version__, "offset-map")[0]
    with pytest.raises(errors.Malformed):
        FORMATS["offset-map"].read({**record, part: b"\2" + record[part][1:]})


@pytest.mark.parametrize("field", ["on_data_loss", "on_poison_record"])
def test_a_plan_with_a_policy_that_is_not_known_here_is_malformed(field: str) -> None:
    """The reader of the control topic raises ForeignPlan, so nothing is copied by a policy that is not understood."""
    record, _ = samples(__version__, "plan")[0]
    newer = raised(
        __version__, "plan", record, lambda told: {**told, "task_settings": {**told["task_settings"], field: "ask"}}
    )
    with pytest.raises(DecodeError, match=field):
        FORMATS["plan"].read(newer)


def test_only_what_the_changelog_dates_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "CHANGELOG.md"
    file.write_text("## [0.2.0] - unreleased\n\n## [0.1.0] - 2026-11-30\n")
    monkeypatch.setattr(releases, "CHANGELOG", file)
    assert [releases.is_released(each) for each in ("0.2.0", "0.1.0", "0.1", "0.1.00")] == [False, True, False, False]
