"""Lost packets: a rule of iptables, where we may make one."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

from tests.chaos.disk import CannotRun


@contextlib.contextmanager
def lost(bootstrap: str, share: float) -> Iterator[None]:
    """This share of all packets to and from the listeners is dropped meanwhile. Raises CannotRun."""
    ports = ",".join(address.rpartition(":")[2] for address in bootstrap.split(","))
    rule = ["INPUT", "-i", "lo", "-p", "tcp", "-m", "multiport", "--ports", ports]
    rule += ["-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP"]
    tool = shutil.which("iptables")
    if tool is None or subprocess.run([tool, "-I", *rule], capture_output=True, check=False).returncode:
        raise CannotRun("packets can't be dropped here (that needs root and iptables)")
    try:
        yield
    finally:
        subprocess.run([tool, "-D", *rule], check=True)
