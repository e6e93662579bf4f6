"""Arms failpoints in a service under test."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from tests.harness.waiting import PATIENCE, until


class Failpoints:
    """Failpoints of the services that are started with `environment`; see sitecustomize.py."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "failpoints"
        self._folder.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """What a service needs to have failpoints."""
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"MIRROR_FAILPOINTS": str(self._folder), "PYTHONPATH": os.pathsep.join(path)}

    def send(self, signal: str, step: str, nth: int = 1) -> int:
        """Have the worker that reaches `step` for the n-th time from now on send itself a signal; returns its pid.

        RAISE is an exception there.
        """
        self.arm(signal, step, nth)
        return self.wait(step)

    def arm(self, signal: str, step: str, nth: int = 1) -> None:
        """Have the worker that reaches `step` for the n-th time from now on send itself a signal; returns at once."""
        armed = self._folder / step
        whole = armed.with_suffix(".new")  # a reader must not find half a file
        whole.write_text(f"{nth} {signal} {uuid.uuid4().hex}")
        whole.rename(armed)

    def disarm(self) -> None:
        """Nothing happens at any step from now on."""
        for file in self._folder.iterdir():
            file.unlink(missing_ok=True)

    def wait(self, step: str, timeout: float = PATIENCE) -> int:
        """Wait until a step that was armed has been reached; returns the worker's pid."""
        (done,) = until(f"{step} is reached", lambda: list(self._folder.glob(f"{step}.[0-9]*")), timeout)
        done.unlink()
        return int(done.suffix[1:])
