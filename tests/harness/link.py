"""A link to a cluster that is far away: a TUN device, whose program delays packets and drops some of them.

The kernel's TCP runs over it as over any link, so it shows what socket buffers, windows and losses do; a proxy would
hide that. It needs root, and Linux's `ip`.

The device has two addresses, of a near host and of a far one, and both belong to this machine. A packet between them
would stay within the machine, so each host knows the other one by another name (addresses of FAR), whose packets go to
the device. The program exchanges the names on the way. The checksums stay right, since the sum of the two
addresses of a packet stays as it was.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirror.demo.brokers import LocalCluster
from mirror.demo.subprocesses import spawn
from tests.harness.listeners import also_listen

DEVICE = "mirrorfar0"
NET = "10.213"  # hosts 1 (far) and 2 (near); the third byte says how the packet names them
TRUE, FAR = 1, 2
MTU = 1500  # as on the way between two data centres
CONTROL = "cubic"  # the default of Linux, whatever this machine has
QUEUE = 20_000  # packets that may wait for the program: it must not lose any that the link would carry

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_SOURCE_NET, _DESTINATION_NET = 14, 18  # bytes of an IPv4 header: the third of each address
_READY = b"ready\n"
_AT_ONCE = 64  # packets that are read before those are written that are due


class Link:
    """The far listeners of some clusters, and the link that leads to them. `log` gets what its program says."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._addresses: dict[str, str] = {}  # by the cluster's name

    def to(self, cluster: LocalCluster) -> str:
        """The value of bootstrap.servers for who is far away from the cluster."""
        return self._addresses[cluster.name]

    @contextmanager
    def hosts(self, *clusters: LocalCluster) -> Iterator[None]:
        """While it runs, clusters that are started then are reached over the link, too."""
        for cluster in clusters:
            self._listen(cluster)
        # The device of a run that was killed is still there.
        subprocess.run(["ip", "link", "delete", DEVICE], stderr=subprocess.DEVNULL, check=False)
        _ip("tuntap", "add", "dev", DEVICE, "mode", "tun")
        try:
            for host in (1, 2):
                _ip("address", "add", f"{NET}.{TRUE}.{host}/32", "dev", DEVICE)
            _ip("link", "set", DEVICE, "mtu", str(MTU), "txqueuelen", str(QUEUE), "up")
            near = f"{NET}.{TRUE}.2"
            _ip("route", "add", f"{NET}.{FAR}.0/24", "dev", DEVICE, "src", near, "congctl", CONTROL)
            yield
        finally:
            _ip("link", "delete", DEVICE)

    @contextmanager
    def carries(self, round_trip: float, loss: float = 0.0) -> Iterator[None]:
        """While it runs, packets pass: half of `round_trip` seconds each way, and a share `loss` of them never."""
        before = self._log.stat().st_size if self._log.exists() else 0
        program = spawn([sys.executable, "-m", __name__, str(round_trip / 2), str(loss)], self._log)
        try:
            while not self._log.exists() or _READY not in self._log.read_bytes()[before:]:
                if program.poll() is not None:
                    raise AssertionError(f"the link: {self._log.read_text()[before:]}")
                time.sleep(0.01)
            yield
        finally:
            program.kill()
            program.wait()

    def _listen(self, cluster: LocalCluster) -> None:
        near, far = (f"{NET}.{which}.1" for which in (TRUE, FAR))
        addresses = [also_listen(broker, "PLAINTEXT", "FAR", near, far) for broker in cluster.brokers]
        self._addresses[cluster.name] = ",".join(addresses)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def carry(delay: float, loss: float) -> None:
    """The program: carry packets for ever."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    sys.stdout.buffer.write(_READY)
    sys.stdout.flush()
    on_the_way: deque[tuple[float, Any]] = deque()
    now, read, write = time.monotonic, os.read, os.write
    while True:
        left = on_the_way[0][0] - now() if on_the_way else None
        if left is None or left > 0:
            select.select([device], [], [], left)
        try:
            for _ in range(_AT_ONCE):
                packet = bytearray(read(device, MTU))
                if packet[0] >> 4 == 4 and random.random() >= loss:
                    packet[_SOURCE_NET], packet[_DESTINATION_NET] = packet[_DESTINATION_NET], packet[_SOURCE_NET]
                    on_the_way.append((now() + delay, packet))
        except BlockingIOError:
            pass
        while on_the_way and on_the_way[0][0] <= now():
            write(device, on_the_way.popleft()[1])


if __name__ == "__main__":
    carry(*map(float, sys.argv[1:]))
