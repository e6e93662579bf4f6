"""A signal ends the service, whatever the main thread does in that moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.harness.waiting import until

BEGIN = """\
import os, signal, sys, threading, time
from mirror.service.stop_signals import end_on_signals
stopping = threading.Event()
end_on_signals(stopping)
"""
# The main thread holds the lock that `Event.set` needs, as it does at some moments of a wait.
HOLDS_THE_LOCK = """\
with stopping._cond:
    signal.raise_signal(int(sys.argv[1]))
assert stopping.wait(30)
"""
# Many short waits, each of which a signal may interrupt at any moment; then those of a stop.
WAITS = """\
print("waits", flush=True)
while not stopping.wait(0.0002):
    pass
end = time.monotonic() + 0.5
while time.monotonic() < end:
    stopping.set()
    stopping.wait(0.0002)
os._exit(0)  # at its own end Python gives signals their usual effect back
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_for_no_lock_of_the_thread_that_it_interrupts(number: signal.Signals) -> None:
    subprocess.run([sys.executable, "-c", BEGIN + HOLDS_THE_LOCK, str(int(number))], check=True, timeout=60)


def test_signals_that_come_one_after_the_other_end_each_wait() -> None:
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", BEGIN + WAITS], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"waits\n"

        def ended(child: subprocess.Popen[bytes] = child) -> bool:
            for _ in range(200):
                child.send_signal(signal.SIGTERM)
                time.sleep(0.0001)
            return child.poll() is not None

        try:
            until("it ends", ended, 30)
            assert child.returncode == 0
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
