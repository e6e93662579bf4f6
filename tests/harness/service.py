"""`mirror run` as a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.harness import processes, stacks
from tests.harness.installed import HERE, Program
from tests.harness.standstill import Standstill
from tests.harness.waiting import PATIENCE, TooLate, until

# What the log says of a partition that can't be copied as it is.
PASSED_OVER = "source data is lost, copying goes on after it"
REFUSED = "record can't be copied, copying goes on after it"
DECIDED = "position decided, copying goes on from it"
RETRYING = "partition is retrying"
BLOCKED = "partition is blocked until a person acts"
FLOW_RETRYING = "flow is retrying"
FLOW_BLOCKED = "flow is blocked until a person acts"
ANOTHER_REMOTE = "is not the topic that had the copy"
PLANNED = "plan published"
TAKES_BATCHES = "partition takes the batch path"
TAKES_RECORDS = "partition takes the record path"
OWN_AGAIN = "own topic was deleted and created again"

T = TypeVar("T")
Event = dict[str, Any]


class Service:
    """Runs from `start` (or `with`) until it ends or is ended; `close` ends all its processes, whatever happened."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        program: Program = HERE,
    ) -> None:
        self._program = program
        self.file = directory / f"mirror-{uuid.uuid4().hex[:8]}.yaml"
        self.file.write_text(yaml.safe_dump(dict(settings)))
        self.lines: list[str] = []  # all that it has written
        self.events: list[Event] = []  # its log, parsed
        self.noise: list[str] = []  # lines that are no log lines of mirror
        self._arguments = arguments
        self._mark = uuid.uuid4().hex
        self._environment = {**program.environment, **(environment or {}), processes.MARK: self._mark}
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._standstill = Standstill(self.worker_pids)

    def start(self) -> Service:
        """Start, and return once it answers HTTP; Spark is not up by then."""
        atexit.register(self.close)
        self._process = subprocess.Popen(
            [*self._program.command, "run", "-c", str(self.file), *self._arguments],
            cwd=self._program.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True, name="service log")
        self._reader.start()
        self.wait_for_event("mirror starts")
        return self

    def await_plan(self, timeout: float = PATIENCE) -> Service:
        """Wait until it leads its flow and has written a plan of at least one topic."""
        self.wait_for("a plan with topics", lambda: any(e.get("topics") for e in self.find(PLANNED)), timeout)
        return self

    # What it says.

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip("\n")
            self.lines.append(text)
            event = None
            with contextlib.suppress(ValueError):
                event = json.loads(text)
            if isinstance(event, dict) and "msg" in event:
                self.events.append(event)
            else:
                self.noise.append(text)

    def find(self, message: str, since: int = 0, **fields: object) -> list[Event]:
        """The log's events with this message and these fields, without the first `since` events."""
        wanted = {"msg": message, **fields}.items()
        return [event for event in self.events[since:] if wanted <= event.items()]

    def wait_for(self, description: str, condition: Callable[[], T], timeout: float = PATIENCE) -> T:
        """The first true answer of `condition`; fails with the log's end if it is late or the service ends before."""

        def answer() -> T | None:
            ended = self.exit_code is not None
            try:
                found = condition()
            except OSError as error:  # it was too busy to answer over HTTP, or has ended
                found = None
                print(f"   {time.strftime('%X')} {error!r}: {description[:80]}", flush=True)
            assert found or not ended, f"ended with exit code {self.exit_code}"
            return found or None

        try:
            return until(description, answer, timeout)
        except AssertionError as error:
            print(stacks.shown(self.processes()))
            raise TooLate(f"{description}: {error}\n{self.tail()}\n{self.shown()}") from None

    def wait_for_event(self, message: str, timeout: float = PATIENCE, since: int = 0, **fields: object) -> Event:
        """The first event with this message and these fields, not counting the first `since` events."""
        return self.wait_for(f"log line {message!r} {fields}", lambda: self.find(message, since, **fields), timeout)[0]

    def tail(self, lines: int = 40) -> str:
        """The last lines of what it has written."""
        return "\n".join(self.lines[-lines:])

    def shown(self) -> str:
        """What its status page says of flows and partitions. The reasons that are not logged, too, stand there."""
        try:
            found = json.loads(self.get("/status")[1])["flows"]
        except Exception as error:
            return f"no status: {error!r}"
        partitions = [
            {"topic": topic["topic"], **{key: each[key] for key in ("partition", "state", "position", "reason")}}
            for flow in found
            for topic in flow.pop("topics", [])
            for each in topic["partitions"]
        ]
        return "\n".join(json.dumps(each) for each in [*found, *partitions[:20]])

    def rewrite(self, text: str) -> None:
        """Replace the configuration file as an editor does: nobody reads half of it."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)

    # What it tells over HTTP.

    @property
    def port(self) -> int:
        """The port of its HTTP server. A standby that takes over has another one."""
        return int(self.find("mirror starts")[-1]["port"])

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a path."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> list[Sample]:
        """All samples of /metrics."""
        return [s for family in text_string_to_metric_families(self.get("/metrics")[1]) for s in family.samples]

    def metric(self, name: str, **labels: object) -> float:
        """The sum of the samples with this name and these labels; NaN, which compares false, if there is none."""
        wanted = {key: str(value) for key, value in labels.items()}.items()
        # Of a page of a thousand lines a few are wanted, and who waits for a value asks often.
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        samples = (s for family in text_string_to_metric_families("\n".join(lines)) for s in family.samples)
        found = [s.value for s in samples if s.name == name and wanted <= s.labels.items()]
        return sum(found) if found else math.nan

    def positions(self, topic: str) -> dict[int, int | None]:
        """The position of each partition of a topic, as the tasks have reported it; None: not yet."""
        return {each["partition"]: each["position"] for each in self._partitions(topic)}

    def await_idle(self, topic: str, position: int) -> None:
        """Wait until partition 0 was copied up to a position and has no producer any more: nothing of it is committed.

        The state alone does not tell: a partition that nobody has reported yet has the same one.
        """
        wanted = [(position, "starting")]
        self.wait_for(
            f"{topic} is idle", lambda: [(p["position"], p["state"]) for p in self._partitions(topic)] == wanted
        )

    def _partitions(self, topic: str) -> list[dict[str, Any]]:
        flows = json.loads(self.get("/status")[1])["flows"]
        return [each for flow in flows for t in flow["topics"] if t["topic"] == topic for each in t["partitions"]]

    # How it ends.

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        """The process id of the service itself."""
        assert self._process is not None
        return self._process.pid

    def terminate(self, how: signal.Signals = signal.SIGTERM, timeout: float = PATIENCE) -> int:
        """A signal to the service's process alone; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(how)
        return self.wait(timeout)

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit code, once it has ended."""
        assert self._process is not None and self._reader is not None
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TooLate(f"does not end within {timeout:g} s\n{self.tail()}") from None
        # The JVM may hold the pipe a little longer.
        self._reader.join(timeout)
        return code

    def kill(self) -> None:
        """SIGKILL to the service's process alone. Its JVM and workers notice by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """SIGKILL to whatever is left of it."""
        processes.kill_marked(self._mark)
        if self._process is not None:
            self._process.wait()
        if self._reader is not None:
            self._reader.join(10)
        atexit.unregister(self.close)

    def __enter__(self) -> Service:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            print(stacks.shown(self.processes()))
        self.close()
        if error is not None:
            print(f"--- log of {self.file.name}\n{self.tail(200)}")

    # Its processes.

    def processes(self) -> list[psutil.Process]:
        """All that belong to it and run."""
        return processes.marked(self._mark)

    @property
    def jvm_pid(self) -> int:
        """The process id of Spark's driver."""
        (jvm,) = [p for p in self.processes() if processes.command_holds(p, "java", "org.apache.spark.deploy")]
        return jvm.pid

    def worker_pids(self) -> list[int]:
        """The process ids of the Python workers that run slices: children of pyspark.daemon with clients of Kafka.

        Spark may have others, which it ends when they have had nothing to do for a minute.
        """
        # The driver has other daemons, for what it asks of the data source itself.
        jvm = psutil.Process(self.jvm_pid)
        daemons = processes.children(jvm, "pyspark.daemon", "pyspark.worker")
        workers = [worker.pid for daemon in daemons for worker in processes.children(daemon)]
        return sorted(pid for pid in workers if processes.has_thread(pid, "rdk:main"))

    def kill_workers(self) -> None:
        """SIGKILL to all that run slices. Spark starts others."""
        for worker in self.worker_pids():
            psutil.Process(worker).kill()

    def workers_stopped(self) -> contextlib.AbstractContextManager[None]:
        """The tasks stand still meanwhile, and nobody is told why: see Standstill."""
        return self._standstill.hold()
