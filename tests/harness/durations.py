"""Says, before the tests run, how long they took when they last ran on this machine."""

from __future__ import annotations

from collections import defaultdict

import pytest

_KEY = "mirror/seconds"


class Durations:
    """A plugin of pytest's. It keeps the seconds of each test, with its fixtures, in pytest's own cache."""

    def __init__(self, cache: pytest.Cache) -> None:
        self._cache = cache
        self._before: dict[str, float] = cache.get(_KEY, {})
        self._now: defaultdict[str, float] = defaultdict(float)

    def pytest_report_collectionfinish(self, items: list[pytest.Item]) -> str:
        """The line that pytest prints before the first test."""
        known = [self._before[item.nodeid] for item in items if item.nodeid in self._before]
        new = len(items) - len(known)
        if not known:
            return "these tests have not run here yet"
        took = f"{sum(known) / 60:.0f} minutes" if sum(known) > 90 else f"{sum(known):.0f} s"
        return f"these tests took {took} when they last ran here" + (f", without {new} that are new" if new else "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test's set-up, its call, or its end."""
        self._now[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep what was measured. A session that collected only, or nothing, changes nothing."""
        if self._now:
            # Another session may have ended since this one began.
            self._cache.set(_KEY, {**self._cache.get(_KEY, {}), **self._now})
