"""Lost packets: rules of iptables, where we may make them."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator

import psutil

from tests.chaos.disk import CannotRun

_HOOK = "INPUT -i lo -p tcp"
_numbers = itertools.count()


@contextlib.contextmanager
def lost(ports: Collection[int], share: float = 1.0) -> Iterator[None]:
    """This share of all packets from and to these listeners of the loopback is dropped meanwhile. Raises CannotRun.

    They must not be ports that clients got for their connections: the kernel gives such a port to several connections
    at once, and some of them are other people's.
    """
    with _dropped((match for port in ports for match in (f"--dport {port}", f"--sport {port}")), share):
        yield


@contextlib.contextmanager
def unreachable(processes: Iterable[psutil.Process]) -> Iterator[None]:
    """Packets of these processes' connections, and to their listeners, are dropped meanwhile. Raises CannotRun."""
    matches: set[str] = set()
    for each in (found for process in processes for found in process.net_connections("tcp")):
        if each.status == psutil.CONN_LISTEN:
            matches |= {f"--dport {each.laddr.port}", f"--sport {each.laddr.port}"}
        elif each.raddr:
            ends = each.laddr.port, each.raddr.port
            matches |= {f"--sport {one} --dport {other}" for one, other in itertools.permutations(ends)}
    with _dropped(sorted(matches), 1.0):
        yield


@contextlib.contextmanager
def _dropped(matches: Iterable[str], share: float) -> Iterator[None]:
    chain = f"lost-{psutil.Process().pid}-{next(_numbers)}"
    luck = f"-m statistic --mode random --probability {share}"
    rules = [f":{chain} -", *(f"-A {chain} -p tcp {match} {luck} -j DROP" for match in matches)]
    _restore([*rules, f"-I {_HOOK} -j {chain}"])
    try:
        yield
    finally:
        _restore([f"-D {_HOOK} -j {chain}", f"-F {chain}", f"-X {chain}"])


def _restore(lines: Iterable[str]) -> None:
    """All of the lines, or none."""
    tool = shutil.which("iptables-restore")
    table = "\n".join(["*filter", *lines, "COMMIT", ""]).encode()
    if tool is None or subprocess.run([tool, "-n", "-w"], input=table, capture_output=True, check=False).returncode:
        raise CannotRun("packets can't be dropped here (that needs root and iptables)")
