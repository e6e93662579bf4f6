"""Several runs of pytest at the same time, which share the modules: each module runs in the run that takes it first."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from tests.harness.programs import skip

SHARED = {"shared_service", "local_service"}  # the fixtures by which tests ask for a service that they share


def needs_of_shared(item: pytest.Item) -> str | None:
    """Where the brokers run of what a test shares with others beside the two clusters; None if that is nothing."""
    call = getattr(item, "callspec", None)
    where = str(call.params.get("where", "local")) if call is not None else "local"
    return where if where != "local" or SHARED.intersection(getattr(item, "fixturenames", ())) else None


class Lots:
    """A plugin for one of the runs. They share an empty directory, in which each module that was taken has a file.

    All modules have to be in one folder: pytest ends the fixtures of a folder only before a test that it then runs.

    The first run begins with the modules that are marked as `long`, the others end with them. So it is rare that two
    of these run at the same time: most of them also need much of the machine.

    Before the other modules come those that share a service, one after another, so that it ends early.

    Modules of which every test is marked as slow come last of both kinds. Once it is `until` (seconds since 1970), no
    more slow tests begin, of no module: the run says which ones it has left out, so that a slow machine has a result in
    time, and everybody knows what it says nothing of.
    """

    def __init__(self, number: int, directory: Path, until: float = math.inf) -> None:
        self._number = number
        self._directory = directory
        self._until = until
        self._taken: dict[Path, bool] = {}  # by module, whether this run has it
        self._left_out: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the long modules first or last. Of both those come first that share a service, or have quick tests."""
        sharing = {item.path for item in items if needs_of_shared(item)}
        quick = {item.path for item in items if not _is_slow(item)}

        def place(item: pytest.Item) -> tuple[bool, bool, bool]:
            is_long = item.get_closest_marker("long") is not None
            return is_long != (self._number == 1), item.path not in sharing, item.path not in quick

        items.sort(key=place)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Pass over what another run has taken."""
        return None if self._has(item.path) else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip what would begin too late. The fixtures that were kept for it end as after a test."""
        if _is_slow(item) and time.time() >= self._until:
            self._left_out.append(item.nodeid)
            skip("the time is over", could_run=False)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out."""
        if self._left_out:
            terminalreporter.section(f"left out: {len(self._left_out)} slow tests, for the time was over")
            for each in self._left_out:
                terminalreporter.line(each)

    def _has(self, module: Path) -> bool:
        if module not in self._taken:
            try:
                (self._directory / "-".join(module.parts[1:])).touch(exist_ok=False)
            except FileExistsError:
                self._taken[module] = False
            else:
                self._taken[module] = True
        return self._taken[module]


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None
