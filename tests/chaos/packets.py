"""Lost packets: rules of iptables, where we may make them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Collection, Iterator

from tests.chaos.disk import CannotRun

MOST_PORTS = 15  # in one rule


@contextlib.contextmanager
def lost(ports: Collection[int], share: float = 1.0) -> Iterator[None]:
    """This share of all packets from and to these ports of the loopback is dropped meanwhile. Raises CannotRun."""
    with contextlib.ExitStack() as rules:
        for at in range(0, len(ports), MOST_PORTS):
            rules.enter_context(_dropped(",".join(map(str, [*ports][at : at + MOST_PORTS])), share))
        yield


@contextlib.contextmanager
def _dropped(ports: str, share: float) -> Iterator[None]:
    rule = ["INPUT", "-i", "lo", "-p", "tcp", "-m", "multiport", "--ports", ports]
    rule += ["-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP"]
    tool = shutil.which("iptables")
    if tool is None or subprocess.run([tool, "-I", *rule], capture_output=True, check=False).returncode:
        raise CannotRun("packets can't be dropped here (that needs root and iptables)")
    try:
        yield
    finally:
        subprocess.run([tool, "-D", *rule], check=True)
