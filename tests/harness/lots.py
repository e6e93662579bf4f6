"""Several runs of pytest at the same time, which share the modules: each module runs in the run that takes it first."""

from __future__ import annotations

from pathlib import Path

import pytest


class Lots:
    """A plugin for one of the runs. They share an empty directory, in which each module that was taken has a file.

    All modules have to be in one folder: pytest ends the fixtures of a folder only before a test that it then runs.

    The first run begins with the modules that are marked as `long`, the others end with them. So it is rare that two
    of these run at the same time: most of them also need much of the machine.
    """

    def __init__(self, number: int, directory: Path) -> None:
        self._number = number
        self._directory = directory
        self._taken: dict[Path, bool] = {}  # by module, whether this run has it

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the long modules first or last."""
        items.sort(key=lambda item: (item.get_closest_marker("long") is None) == (self._number == 1))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Pass over what another run has taken."""
        return None if self._has(item.path) else True

    def _has(self, module: Path) -> bool:
        if module not in self._taken:
            try:
                (self._directory / "-".join(module.parts[1:])).touch(exist_ok=False)
            except FileExistsError:
                self._taken[module] = False
            else:
                self._taken[module] = True
        return self._taken[module]
