"""Removes the containers of a test run when the run is over, however it has ended.

    python -m tests.harness.reaper LABEL

It reads standard input until its end. The test run holds the other end of that pipe and writes nothing to it, so the
end comes when the run closes it, or when the run's process is gone. It takes the place of testcontainers' own helper
(Ryuk), which needs an image and the engine's socket inside a container.
"""

from __future__ import annotations

import contextlib
import sys

import docker
import docker.errors


def remove(label: str) -> None:
    """Remove each container with that label, running or not, and its volumes."""
    client = docker.from_env()
    for container in client.containers.list(all=True, filters={"label": label}, ignore_removed=True):
        with contextlib.suppress(docker.errors.NotFound):
            container.remove(force=True, v=True)
    client.close()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    remove(sys.argv[1])
