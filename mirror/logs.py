"""Log lines: one per event, key=value or JSON, the same in the service and in Spark's tasks."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from mirror.service_settings import Log
from mirror.text import printable

S = TypeVar("S", bound=Hashable)

REPEAT_AFTER = 60.0  # seconds during which an equal warning is logged only once
REMEMBERED = 1_000  # most different warnings that are remembered
EACH_TIME: Mapping[str, None] = {"repeated": None}  # in `extra`: the record is never dropped as a repetition

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(log: Log) -> None:
    """Send mirror's log to stderr, and other libraries' logs from WARNING on. May be called again."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(log.format))
    # When a JVM ends, py4j logs every lost connection, on its own logger and on the root logger. The service logs what
    # that means.
    handler.addFilter(lambda record: record.name != "root")
    handler.addFilter(Repetitions())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    set_level(log.level)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def set_level(level: str) -> None:
    """Write mirror's log lines from this level on. `configure` has to have been called."""
    logging.getLogger("mirror").setLevel(level.upper())


def say_last(error: str) -> None:
    """Write to stderr why the command ends: as a log line if log lines are JSON, otherwise as plain text.

    Does nothing if stderr is closed or full: the exit code has to say it then.
    """
    handlers = logging.getLogger().handlers
    if any(isinstance(handler.formatter, JsonFormatter) for handler in handlers):
        logging.getLogger("mirror").error(error)
    elif sys.stderr is not None:
        with suppress(OSError):
            # It may have a broker's own words. What mirror says itself has several lines.
            sys.stderr.write("".join(f"{printable(line)}\n" for line in error.split("\n")))
            sys.stderr.flush()


class Repetitions(logging.Filter):
    """Drops a warning or error if an equal one was logged in the last minute. The next one has the count in `repeated`.

    Records are equal if message and fields are equal. Records with a traceback are never dropped.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: dict[bytes, tuple[float, int]] = {}  # by digest: when, and how many were dropped since

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is to be logged."""
        if record.levelno < logging.WARNING or record.exc_info or hasattr(record, "repeated"):
            return True
        now = self._clock()
        key = _digest(record)
        with self._lock:
            when, count = self._logged.pop(key, (-REPEAT_AFTER, 0))
            again = now - when < REPEAT_AFTER
            self._logged[key] = (when, count + 1) if again else (now, 0)
            while len(self._logged) > REMEMBERED:
                del self._logged[next(iter(self._logged))]
        if count and not again:
            record.repeated = count
        return not again


class OnChange:
    """Remembers what was logged last, so that a condition which lasts is logged once and not on every pass.

    Use either `is_new`, where each `subject` (a partition, a topic) has a value of its own, or `added`, where being
    there is all that counts. Not safe for use by several threads.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, object] = {}

    def is_new(self, value: object, subject: Hashable = None) -> bool:
        """True if `value` is not the last one of `subject`; remembers it."""
        same = subject in self._last and self._last[subject] == value
        self._last[subject] = value
        return not same

    def added(self, subjects: Iterable[S]) -> list[S]:
        """The subjects that the last call did not have. One that was missing in between counts as added again."""
        found = list(dict.fromkeys(subjects))
        new = [subject for subject in found if subject not in self._last]
        self._last = {subject: None for subject in found}
        return new

    def clear(self, subject: Hashable = None) -> bool:
        """Forget the value of `subject`, so that any next one is new. True if there was one."""
        return self._last.pop(subject, self) is not self


def _formatter(name: str) -> logging.Formatter:
    return JsonFormatter() if name == "json" else TextFormatter()


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields that the caller gave as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD and value is not None}


def _digest(record: logging.LogRecord) -> bytes:
    """The same for records whose message and fields are equal. It is short, whatever others have put into them."""
    text = repr((record.name, record.levelno, record.getMessage(), str(_fields(record))))
    return hashlib.sha256(text.encode(errors="backslashreplace")).digest()


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """Formats a record as `2026-01-31T12:00:00.000Z INFO message key=value key="two words"`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, followed by a traceback if there is one."""
        fields = "".join(f" {key}={_quoted(value)}" for key, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with the field names of Spark's own JSON log."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, object] = {"ts": _time(record), "level": record.levelname, "msg": record.getMessage()}
        fields |= _fields(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def _quoted(value: object) -> str:
    text = printable(" ".join(str(value).split()))
    return text if text and not set(text) & set(' "=') else json.dumps(text, ensure_ascii=False)
