"""Java's console consumer, which is Java's own consumer in a process that prints what it reads."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping

from tests.harness import kafka_tools
from tests.harness.waiting import PATIENCE

MAIN = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


def consume(bootstrap: str, topic: str, group: str, most: int, **properties: str) -> list[bytes]:
    """Read `most` values of a topic as a member of the group, or as many as have come in time. It commits them.

    `properties` are the consumer's, with _ for each dot.
    """
    options = {"bootstrap-server": bootstrap, "topic": topic, "group": group, "max-messages": str(most)}
    options |= {"isolation-level": "read_committed", "timeout-ms": str(int(PATIENCE / 4 * 1000))}
    command = _command(MAIN, options)
    for name, value in properties.items():
        command += ["--command-property", f"{name.replace('_', '.')}={value}"]
    ended = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")
    return ended.stdout.splitlines()


@contextlib.contextmanager
def sharing(bootstrap: str, topic: str, group: str) -> Iterator[None]:
    """With Java's consumer of a share group (KIP-932), which is told to leave at the end.

    It sometimes misses that: the tool's loop can swallow the wake-up that its shutdown hook waits for.
    """
    command = _command(SHARE, {"bootstrap-server": bootstrap, "topic": topic, "group": group})
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE / 4)
            except subprocess.TimeoutExpired:
                process.kill()


def _command(main: str, options: Mapping[str, str]) -> list[str]:
    return kafka_tools.command(main) + [part for name, value in options.items() for part in (f"--{name}", value)]
