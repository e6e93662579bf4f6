"""Reads all files of a configuration and merges them into one tree. Remembers where each value of it is written.

Later files win. Mappings are merged key by key; any other value replaces the earlier one. A flow with the same source
and target as a flow of an earlier file is merged with it, and others are added. Under each flow lie the values of
`flow_defaults`, as if they were an earlier file.

`null` takes away what earlier files say, so that the key is in no file. A mapping without any key is as if absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mirror.config import expected, located_yaml
from mirror.config.flow_model import FlowDefaultsModel
from mirror.config.located_yaml import Document, Location, Problem
from mirror.config.model import FLOWS_MAX, RootModel
from mirror.config.references import ALIASED_MAX, Budget, TooMuch

FLOWS, DEFAULTS = "flows", "flow_defaults"

_TAKES_NOTHING = "null takes away what an earlier file says, but none has this key"
_REPEATED = (
    f"the flows take more than {ALIASED_MAX:,} values from here and from aliases; write shorter lists, or fewer keys"
)


class Place(NamedTuple):
    """Where a value is written: the file, the line if it is known, and the key in this file."""

    path: Path
    line: int | None
    key: Location


class Placed(NamedTuple):
    """What is wrong, where that is written, and the location in the merged tree unless another file's value wins."""

    place: Place
    text: str
    location: Location | None


class _Layer(NamedTuple):
    """A value that one file gives for a location of the merged tree. A later layer wins."""

    file: int
    key: Location
    value: Any
    is_default: bool = False  # from flow_defaults, for a flow

    def at(self, key: str | int) -> _Layer:
        return _Layer(self.file, (*self.key, key), self.value[key], self.is_default)


@dataclass(frozen=True, slots=True)
class Files:
    """All files as one tree; `tree` is None if one of them can't be read at all."""

    documents: Sequence[Document]
    tree: Any
    problems: Sequence[Placed]
    sources: Mapping[Location, tuple[int, Location]]  # the file and key of what was taken from there as it is

    def place(self, location: Location) -> Place:
        """Where a value of the tree is written. For a missing key: where the nearest mapping around it is."""
        document, key = self._written(location)
        return Place(document.path, document.line(key), key)

    def is_reference(self, location: Location) -> bool:
        """True if the value was made from `${...}`, so that it must not be shown."""
        document, key = self._written(location)
        return key in document.references

    def file(self, location: Location) -> Path | None:
        """The file whose whole text the value is, by `${file:...}`; None if there is none."""
        document, key = self._written(location)
        return document.files.get(key)

    def is_default(self, location: Location) -> bool:
        """True if a flow has the value, or lacks it, because of flow_defaults."""
        return location[:1] == (FLOWS,) and self._written(location)[1][:1] == (DEFAULTS,)

    def has(self, location: Location) -> bool:
        """True if a file gives a value for the location."""
        node = self.tree
        for key in location:
            known = isinstance(node, dict) and key in node
            if not known and not (isinstance(node, list) and isinstance(key, int) and key < len(node)):
                return False
            node = node[key]
        return True

    def flow(self, index: int) -> str:
        """What messages call a flow of the tree: by its key, and by its file if there are several."""
        place = self.place((FLOWS, index))
        number = f"{FLOWS}[{place.key[-1]}]"
        return number if len(self.documents) == 1 else f"{number} ({place.path}:{place.line})"

    def _written(self, location: Location) -> tuple[Document, Location]:
        for end in range(len(location), -1, -1):
            if source := self.sources.get(location[:end]):
                return self.documents[source[0]], (*source[1], *location[end:])
        return self.documents[0], location


def read(paths: Sequence[Path], environ: Mapping[str, str]) -> Files:
    """Read and merge the files. Never raises for bad input: the `problems` say what is wrong."""
    budget = Budget()
    documents = [located_yaml.read(path, environ, budget) for path in paths]
    layers = [_Layer(file, (), each.tree) for file, each in enumerate(documents) if isinstance(each.tree, dict)]
    for document in documents:
        is_empty = document.tree is None and layers
        if not isinstance(document.tree, dict) and not is_empty and not document.problems:
            keys = ", ".join(RootModel.model_fields)
            what = "the file is empty" if document.tree is None else "the top level is not a mapping"
            document.problems.append(Problem((), f"{what}; it must be a mapping with the keys {keys}", 1))
    merger, tree = _Merger(documents, layers, budget), None
    if layers and all(isinstance(document.tree, dict) or not document.problems for document in documents):
        try:
            tree = merger.merge((), layers)
        except TooMuch as error:
            first = next(documents[layer.file] for layer in layers if DEFAULTS in layer.value)
            first.problems.append(Problem((DEFAULTS,), str(error)))
        except RecursionError:
            documents[-1].problems.append(Problem((), "nested too deeply", 1))
    return Files(documents, tree, list(_file_problems(documents, merger)), merger.sources)


def _file_problems(documents: Sequence[Document], merger: _Merger) -> Iterator[Placed]:
    """The problems of the files themselves. A reference that can't be resolved is none if a later file's value wins."""
    for file, document in enumerate(documents):
        for problem in (*document.problems, *document.unresolved):
            place = Place(document.path, problem.line or document.line(problem.location), problem.location)
            location = merger.location(file, problem.location)
            if location is not None or problem in document.problems:
                yield Placed(place, problem.text, location)


class _Merger:
    """Merges the trees of all files, from the top down, and records what it takes from where."""

    def __init__(self, documents: Sequence[Document], layers: Sequence[_Layer], budget: Budget) -> None:
        self.sources: dict[Location, tuple[int, Location]] = {}
        self._taken: dict[tuple[int, Location], tuple[Location, bool]] = {}  # by file and key: where to, if as a whole
        self._documents = documents
        self._budget = budget
        self._first = min((layer.file for layer in layers), default=0)
        self._defaults: list[_Layer] = []
        given = [layer.at(DEFAULTS) for layer in layers if DEFAULTS in layer.value]
        for layer in _alike(self._counting((DEFAULTS,), given)):
            if isinstance(layer.value, dict):
                # Each other key has one problem, at flow_defaults, and not one more in each flow.
                known = {key: value for key, value in layer.value.items() if key in FlowDefaultsModel.model_fields}
                self._defaults.append(layer._replace(value=known, is_default=True))

    def merge(self, at: Location, layers: Sequence[_Layer]) -> Any:
        """The merged value of all layers at one location. Raises TooMuch."""
        last, alike = layers[-1], _alike(layers)
        parts = len(alike) > 1 or (bool(self._defaults) and at in ((), (FLOWS,)))
        if parts and isinstance(last.value, dict):
            self._take(at, alike, whole=False)
            keys = dict.fromkeys(key for layer in alike for key in layer.value)
            given = {k: self._counting((*at, k), [layer.at(k) for layer in alike if k in layer.value]) for k in keys}
            return {k: self.merge((*at, k), some) for k, some in given.items() if some}
        if parts and isinstance(last.value, list) and at == (FLOWS,):
            self._take(at, alike, whole=False)
            return [self.merge((*at, number), each) for number, each in enumerate(self._flows(alike))]
        if last.is_default:
            self._budget.repeat(_size(last.value), _REPEATED)
        self._take(at, [last], whole=True)
        return self._whole(at, last)

    def _counting(self, at: Location, layers: Sequence[_Layer]) -> Sequence[_Layer]:
        """The layers of one key that count; none if it is as if no file had it.

        Where the model has a mapping, all keys below may be commented out. That says nothing, and takes nothing away.
        """
        if not any(layer.value is None for layer in layers):
            return layers
        is_section = expected.is_section(at)
        counting = [each for each in layers if not is_section or each.value is not None or not self._is_blank(each)]
        if not counting or counting[-1].value is not None:
            return counting
        if is_section:
            return []
        last = counting[-1]
        if self._is_blank(last) or expected.may_be_null(at):
            return counting  # a mistake, or a value
        if len(counting) > 1:
            return []
        is_later, is_free = last.file > self._first, expected.is_named_freely(at)
        if is_later and is_free:  # only here the model can't tell a typo
            self._documents[last.file].problems.append(Problem(last.key, _TAKES_NOTHING))
        return [] if is_later and not is_free and expected.node(at) else counting

    def _whole(self, at: Location, layer: _Layer) -> Any:
        """The value of a single layer, without the nulls in it that say nothing."""
        if isinstance(layer.value, dict):
            given = {key: self._counting((*at, key), [layer.at(key)]) for key in layer.value}
            return {key: self._whole((*at, key), some[-1]) for key, some in given.items() if some}
        if isinstance(layer.value, list):
            return [self._whole((*at, number), layer.at(number)) for number in range(len(layer.value))]
        return layer.value

    def _is_blank(self, layer: _Layer) -> bool:
        return layer.key in self._documents[layer.file].blank

    def location(self, file: int, key: Location) -> Location | None:
        """Where a key of a file is in the merged tree; None if another file's value has replaced it."""
        for end in range(len(key), -1, -1):
            if taken := self._taken.get((file, key[:end])):
                location, whole = taken
                return (*location, *key[end:]) if whole or end == len(key) else None
        return None

    def _take(self, at: Location, layers: Sequence[_Layer], whole: bool) -> None:
        first = next((layer for layer in layers if not layer.is_default), layers[0])
        self.sources[at] = first.file, first.key
        for layer in layers:
            if not layer.is_default:
                self._taken[layer.file, layer.key] = at, whole

    def _flows(self, layers: Sequence[_Layer]) -> list[list[_Layer]]:
        """The layers of each flow. A pair that stands twice in one file stays twice, since that is a mistake."""
        found: list[list[_Layer]] = []
        known: dict[tuple[str, str], int] = {}
        for layer in layers:
            earlier = dict(known)
            for number in range(len(layer.value)):
                item = layer.at(number)
                pair = _pair(item.value)
                index = earlier.pop(pair, None) if pair else None
                if index is not None:
                    found[index].append(item)
                    continue
                if pair:
                    known.setdefault(pair, len(found))
                found.append([*(self._defaults if len(found) < FLOWS_MAX else []), item])
        return found


def _alike(layers: Sequence[_Layer]) -> Sequence[_Layer]:
    """The last layers that are all of one kind. Each value of another kind replaces what was before it."""
    begin = len(layers)
    while begin and type(layers[begin - 1].value) is type(layers[-1].value):
        begin -= 1
    return layers[begin:]


def _pair(flow: Any) -> tuple[str, str] | None:
    ends = (flow.get("source"), flow.get("target")) if isinstance(flow, dict) else (None, None)
    return (ends[0], ends[1]) if isinstance(ends[0], str) and isinstance(ends[1], str) else None


def _size(value: Any) -> int:
    """The number of values in a value."""
    if isinstance(value, dict | list):
        return 1 + sum(map(_size, value.values() if isinstance(value, dict) else value))
    return 1
