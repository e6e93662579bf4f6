"""Scenarios that mostly wait run at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_turn(*scenarios: Callable[[], object]) -> Callable[[], None]:
    """One scenario of several, which come one after the other. Use it to have fewer services at a time."""

    def all_of_them() -> None:
        for each in scenarios:
            each()

    return all_of_them


def together(*scenarios: Callable[[], object]) -> None:
    """Run each scenario in a thread of its own. Once all have ended, raise the first failure."""
    with ThreadPoolExecutor(len(scenarios)) as pool:
        running = [pool.submit(scenario) for scenario in scenarios]
    for each in running:
        each.result()
