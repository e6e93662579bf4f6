"""Containers of the project's image, run as strictly as Kubernetes may run them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.harness.waiting import until

FILE = "/etc/mirror/mirror.yaml"
# The last one of the users has no name in the image, such as one that OpenShift makes up.
USERS = ("10001:10001", "123456:0")


def docker(*arguments: str) -> str:
    """What the command prints; ends the program with all that it says if it fails."""
    ended = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"docker {' '.join(arguments)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def strict(user: str, file: Path, place: str = FILE, network: str = "host") -> Sequence[str]:
    """The options of `docker run`: nothing may be written but /tmp, and no right be gained. `file` is at `place`."""
    locked = ["--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,exec,mode=1777", "--cap-drop", "ALL"]
    reaches = ["--network", network, "--security-opt", "no-new-privileges"]
    return [*locked, *reaches, "--user", user, "--volume", f"{file}:{place}:ro"]


@contextlib.contextmanager
def running(image: str, options: Sequence[str], *command: str) -> Iterator[str]:
    """A container meanwhile; yields its name."""
    name = f"mirror-{uuid.uuid4().hex[:6]}"
    docker("run", "--detach", "--name", name, *options, image, *command)
    try:
        yield name
    except BaseException:
        print(docker("logs", "--tail", "20", name))
        raise
    finally:
        docker("rm", "--force", "--volumes", name)


def await_healthy(name: str) -> None:
    """Wait until the image's health check says that the service runs."""
    health = ("inspect", "--format", "{{.State.Health.Status}}", name)
    until("healthy", lambda: docker(*health).strip() == "healthy")


def ends(name: str) -> None:
    """The container is healthy, and ends in order when it is stopped."""
    await_healthy(name)
    docker("stop", "--time", "30", name)
    code = docker("inspect", "--format", "{{.State.ExitCode}}", name).strip()
    if code != "0":
        sys.exit(f"the run ended with {code}:\n{docker('logs', '--tail', '20', name)}")
