"""Log lines: one per event, key=value or JSON, the same in the service and in Spark's tasks."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone

from mirror.settings import Log

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(log: Log) -> None:
    """Send mirror's log to stderr; other libraries' only from WARNING on. May be called again."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log.format == "json" else TextFormatter())
    # py4j logs every lost connection of a JVM that ends, on its own logger and on the root; the service itself
    # tells what that means.
    handler.addFilter(lambda record: record.name != "root")
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("mirror").setLevel(log.level.upper())
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """What was given as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD and value is not None}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO message key=value key="two words"`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, but for a defect's traceback."""
        fields = "".join(f" {key}={_quoted(value)}" for key, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the field names of Spark's own JSON log."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, object] = {"ts": _time(record), "level": record.levelname, "msg": record.getMessage()}
        fields |= _fields(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def _quoted(value: object) -> str:
    text = " ".join(str(value).split())
    return text if text and not set(text) & set(' "=') else json.dumps(text, ensure_ascii=False)
