"""`mirror demo`: two local clusters, the real service between them, a kill -9, and a count of what arrived."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from mirror.commands.verify.differences import Counts
from mirror.commands.verify.digests import Digester
from mirror.commands.verify.selection import select
from mirror.commands.verify.verify import InProcess, verify
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster, start_together
from mirror.demo.kafka_jars import kafka_jars
from mirror.demo.load import BURST, RATE, TOPICS, Reader, Writer, create_topics
from mirror.demo.screen import MARGIN, Row, Screen
from mirror.demo.service import DemoService, adopt_orphans, end_orphans
from mirror.errors import MirrorError
from mirror.text import duration

FRAME = 0.5  # seconds between two updates of the screen
START_WITHIN = 180.0  # seconds in which the service has to copy its first record
STOP_WITHIN = 40.0
NO_PROGRESS = 60.0  # seconds without a new record on backup after which the wait for the rest ends


def run(seconds: float, keep: bool, as_json: bool) -> bool:
    """Run the demo; True if both clusters are equal. Raises MirrorError, and SystemExit after a signal."""
    screen = Screen(sys.stderr if as_json else sys.stdout)
    signals = Signals()
    kafka_jars(progress=screen.say)
    signals.defer()
    screen.line("Two Kafka clusters on this machine, and the real service: it copies every")
    screen.line("record from primary to backup, exactly once.")
    if not keep:
        screen.line("Halfway it is killed, and at the end both clusters are compared.")
    screen.line()
    with ExitStack() as ends:
        demo = Demo(screen, signals, ends)
        try:
            demo.start()
            if keep:
                demo.keep()
            demo.play(seconds)
            found = demo.compare()
        except SystemExit:
            screen.say("stopping everything")
            screen.clear()
            if keep:
                return True
            raise
    total = sum(found.values(), Counts())
    if as_json:
        topics = {name: asdict(counts) for name, counts in found.items()}
        result = {"equal": total.equal, **asdict(total), "aborted": demo.writer.aborted, "topics": topics}
        sys.stdout.write(json.dumps(result) + "\n")
    return total.equal


class Signals:
    """Ends the demo on SIGINT, SIGTERM and SIGHUP: at once or, after `defer`, only at safe places."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._number = 0
        self._deferred = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def defer(self) -> None:
        """Let only `check` and `wait` raise from now on, since there is something to clean up."""
        self._deferred = True

    def check(self) -> None:
        """Raise SystemExit if a signal came."""
        if self._came.is_set():
            raise SystemExit(128 + self._number)

    def wait(self, seconds: float) -> None:
        """Sleep for so long. Raises SystemExit when a signal comes."""
        self._came.wait(seconds)
        self.check()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._number = number
        self._came.set()
        if not self._deferred:
            self.check()


class Demo:
    """Clusters, writer, reader and service. Whatever it starts is ended by `ends`, in the reverse order."""

    def __init__(self, screen: Screen, signals: Signals, ends: ExitStack) -> None:
        self._screen = screen
        self._signals = signals
        self._ends = ends
        self._directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="mirror-demo-")))
        adopt_orphans()
        ends.callback(end_orphans)
        self._primary = LocalCluster("primary", self._directory)
        self._backup = LocalCluster("backup", self._directory)

    def start(self) -> None:
        """Start clusters, writer and service, and return when records arrive."""
        self._screen.say("starting two Kafka clusters of one broker each")
        self._start_clusters()
        self.service = DemoService(self._directory, self._primary.bootstrap, self._backup.bootstrap)
        self._ends.callback(self.service.kill)
        create_topics(self._primary.bootstrap)
        self._reader = Reader(self._backup.bootstrap, {topic: f"primary.{topic}" for topic in TOPICS})
        self._ends.callback(self._reader.stop)
        self._reader.start()
        self.writer = Writer(self._primary.bootstrap)
        self._ends.callback(self.writer.stop)
        self.writer.start()
        self._screen.say(
            f"writing {RATE:,} records a second to primary, half of them in transactions,\n"
            "of which one in six is aborted: nobody may see those records"
        )
        self._screen.say(f"starting the service: mirror run -c {self.service.config}")
        self.service.start()
        self._await_running()
        self._screen.say("the service runs, and copies what was written meanwhile")

    def _start_clusters(self) -> None:
        """Start the clusters in a thread, so that a signal does not wait for the brokers."""
        failures: list[Exception] = []

        def start() -> None:
            try:
                start_together(self._primary, self._backup)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=start, daemon=True, name="brokers")
        thread.start()
        self._ends.callback(self._kill_clusters, thread)
        while thread.is_alive():
            self._signals.wait(0.05)
        if failures:
            raise failures[0]

    def _kill_clusters(self, starting: threading.Thread) -> None:
        while True:
            for cluster in (self._primary, self._backup):
                cluster.kill()
            if not starting.is_alive():
                return
            starting.join(0.1)

    def keep(self) -> NoReturn:
        """Leave everything running until a signal comes, which raises SystemExit."""
        self._screen.say("everything stays as it is until Ctrl-C:", "green")
        for name, value in {
            "primary": self._primary.bootstrap,
            "backup": self._backup.bootstrap,
            "page": self.service.url,
            "metrics": f"{self.service.url}/metrics",
            "config": self.service.config,
            "log": self.service.log,
        }.items():
            self._screen.line(f"{'':7}{name:<9}{value}")
        while True:
            self._watch(lambda: False)

    def play(self, seconds: float) -> None:
        """Write for so long, with a burst and a kill; then wait until everything is copied, and stop the service."""
        begun = time.monotonic()
        self._watch(lambda: time.monotonic() - begun >= seconds / 4)
        self.writer.burst()
        self._screen.say(f"a burst: {BURST:,} more records at once")
        self._watch(lambda: time.monotonic() - begun >= seconds / 2)
        self.service.kill()
        self._screen.say("killed the service with kill -9", "red")
        self._show()
        self.service.start()
        self._screen.say("it starts again and continues from the positions on its target, backup")
        self._await_running()
        self._screen.say("the service runs again, and copies what was written meanwhile", "green")
        self._watch(lambda: time.monotonic() - begun >= seconds)
        self.writer.stop()
        self._screen.say("the writer has stopped; waiting until everything is copied")
        self._await_copied()
        self._screen.say("stopping the service with SIGTERM")
        code = self.service.stop(STOP_WITHIN, self._signals.check)
        if code:
            raise MirrorError(f"the service stopped with exit code {code}, not 0")

    def compare(self) -> dict[str, Counts]:
        """Compare both clusters, print the result, and return it by topic."""
        self._reader.stop()
        self._screen.clear()
        self._screen.say("comparing key, value, headers and timestamp of every record, in order")
        names = ("lost", "duplicated", "reordered", "altered")
        self._screen.line()
        self._screen.line(_columns("topic", "on primary", "on backup", *names), bold=True)
        found: dict[str, Counts] = {}
        for topic in TOPICS:
            found[topic] = self._compare(topic)
            self._screen.line(_counts(topic, found[topic]))
        total = sum(found.values(), Counts())
        self._screen.line(_counts("total", total))
        self._screen.line()
        verdict = ", ".join(f"{name} {getattr(total, name):,}" for name in names)
        self._screen.line(
            f"{MARGIN}{total.source:,} records: {verdict}", bold=True, colour="green" if total.equal else "red"
        )
        return found

    def _compare(self, topic: str) -> Counts:
        (flow,) = load(self.service.config).flows
        digester = Digester({cluster.alias: cluster for cluster in (flow.source, flow.target)})
        selection = select(flow, [topic])
        # Of a partition that was never copied, each record is lost.
        everything = [*selection.compared, *selection.uncopied]
        total = Counts()
        for result in verify(everything, digester, InProcess(), lambda *_: self._signals.check()):
            if not result.aligned:
                why = result.reason or "nothing says which records of both clusters belong together"
                raise MirrorError(f"{result.ranges.place} can't be compared: {why}")
            # Nothing is in flight any more, so what has not arrived is lost; and nobody else writes to backup.
            total += replace(result.counts, lost=result.counts.lost + result.in_flight)
        return replace(total, duplicated=total.duplicated + total.extra, extra=0)

    def _await_running(self) -> None:
        deadline = time.monotonic() + START_WITHIN
        self._watch(lambda: self.service.state == "running" or time.monotonic() > deadline)
        if self.service.state != "running":
            raise MirrorError(f"the service has copied nothing within {duration(START_WITHIN)}: {self.service.state}")

    def _await_copied(self) -> None:
        """Wait until backup has everything, or gets nothing more. The comparison decides which."""
        copied, since = 0, time.monotonic()

        def done() -> bool:
            nonlocal copied, since
            now = sum(self._reader.seen.values())
            if now != copied:
                copied, since = now, time.monotonic()
            everything = all(self._reader.seen[topic] >= self.writer.written[topic] for topic in TOPICS)
            return everything or time.monotonic() - since > NO_PROGRESS

        self._watch(done)

    def _watch(self, until: Callable[[], bool]) -> None:
        """Update the screen until the condition holds."""
        while not until():
            self._signals.wait(FRAME)
            self.service.refresh()
            if self.writer.failure:
                raise self.writer.failure
            self._show()

    def _show(self) -> None:
        latency = self.service.latency
        rows = [
            Row(
                topic,
                self.writer.written[topic],
                self._reader.seen[topic],
                latency([topic], 0.5),
                latency([topic], 0.99),
            )
            for topic in TOPICS
        ]
        total = Row(
            "total",
            sum(row.written for row in rows),
            sum(row.copied for row in rows),
            latency(list(TOPICS), 0.5),
            latency(list(TOPICS), 0.99),
        )
        self._screen.show(self.service.state, [*rows, total])


def _counts(topic: str, counts: Counts) -> str:
    return _columns(topic, *(f"{number:,}" for name, number in asdict(counts).items() if name != "extra"))


def _columns(*cells: str) -> str:
    first, *others = cells
    return f"{MARGIN}{first:<10}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(others, (12, 11, 7, 12, 11, 9), strict=True)
    )
