"""Writes the samples of this version, unless it is released."""

from __future__ import annotations

import sys

from mirror import __version__
from tests.samples.files import FOLDER, text_of
from tests.samples.formats import FORMATS
from tests.samples.releases import is_released


def main() -> None:
    """Write a file for each format."""
    folder = FOLDER / __version__
    if folder.is_dir() and is_released(__version__):
        sys.exit(f"{__version__} is released: its samples stay as they are. Raise the version in mirror/__init__.py")
    folder.mkdir(exist_ok=True)
    for name, kind in FORMATS.items():
        records = [kind.write(each) for each in kind.samples]
        samples = [(dict(record), kind.read(record)) for record in records]
        (folder / f"{name}.json").write_text(text_of(samples))


if __name__ == "__main__":
    main()
