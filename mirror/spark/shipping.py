"""Ships Python code to Spark's executors: this package, and the modules of transforms and token providers.

Packages that are installed are not shipped: they may have compiled parts, and executors have those of their own image.
"""

from __future__ import annotations

import importlib.util
import sysconfig
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from mirror import token_provider
from mirror.errors import TokenProviderUnusable, TransformUnusable
from mirror.settings import Flow
from mirror.transform import load


def check(flows: Iterable[Flow]) -> None:
    """Import the transforms and token providers of these flows.

    Raises TransformUnusable or TokenProviderUnusable, with the first one that can't be.
    """
    for flow in flows:
        for path in flow.transforms:
            try:
                load(path)
            except TransformUnusable as error:
                raise TransformUnusable(f"flow {flow.name}: {error}") from error
        for path in flow.token_providers:
            try:
                token_provider.load(path)
            except TokenProviderUnusable as error:
                raise TokenProviderUnusable(f"flow {flow.name}: {error}") from error


def archives(code: Collection[str], directory: Path) -> list[Path]:
    """Zip for executors what they need of us: this package, and the modules that have these dotted paths."""
    theirs = _modules(code, directory)
    return [package(directory)] if theirs is None else [package(directory), theirs]


def package(directory: Path) -> Path:
    """Zip this package for executors. The packages that it needs must be installed there (see docs/operations.md)."""
    return _zipped(directory / "mirror.zip", _files(Path(__file__).parents[1]))


def _modules(code: Collection[str], directory: Path) -> Path | None:
    """Zip the modules and packages that have these paths, except ours and installed ones. None if there are none."""
    names = sorted({path.partition(".")[0] for path in code} - {__name__.partition(".")[0]})
    found = [each for name in names if (place := _place(name)) is not None for each in _files(place)]
    return _zipped(directory / "user_code.zip", iter(found)) if found else None


def _place(name: str) -> Path | None:
    """The file or the folder of a module; None if it is installed, or belongs to Python."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    places = [Path(each) for each in spec.submodule_search_locations or ()]
    if not places and spec.has_location and spec.origin is not None:
        places = [Path(spec.origin)]
    installed = [Path(sysconfig.get_path(key)) for key in ("purelib", "platlib", "stdlib", "platstdlib")]
    ours = [place for place in places if not any(place.is_relative_to(each) for each in installed)]
    return ours[0] if ours else None


def _files(place: Path) -> Iterator[tuple[Path, Path]]:
    """The Python files of a module or a package, each with its place in an archive."""
    for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        yield file, file.relative_to(place.parent)


def _zipped(archive: Path, files: Iterator[tuple[Path, Path]]) -> Path:
    with zipfile.ZipFile(archive, "w", strict_timestamps=False) as packed:
        for file, name in files:
            packed.write(file, name)
    return archive
