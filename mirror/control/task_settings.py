"""Settings that running tasks take from the plan, so that a changed configuration needs no new task. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from mirror import decode
from mirror.control.throttle_shares import throttles
from mirror.settings import Flow, Start, TopicSettings

_LONGEST = 86_400.0  # seconds, as in the configuration
_NOTHING = TopicSettings(None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Settings of a flow, by the names that they have in `Flow`, and the level of a task's log.

    Transforms are not among them. A transform names code that tasks run, and others may write to the control topic.
    """

    transaction_linger_max: float  # seconds
    producer_idle_timeout: float  # seconds
    open_transaction_warn_after: float  # seconds
    append_to_existing: bool
    on_data_loss: Literal["fail", "skip"]
    on_poison_record: Literal["fail", "skip", "dead_letter"]
    topic_settings: Mapping[str, TopicSettings]
    log_level: str
    throttle: int | None = None
    data_path: Literal["auto", "records"] = "records"

    @staticmethod
    def of(flow: Flow, log_level: str) -> TaskSettings:
        """The settings that the flow leader has now."""
        entries = {topic: replace(entry, transform=None) for topic, entry in flow.topic_settings.items()}
        values = {name: getattr(flow, name) for name in _OF_FLOW} | {"topic_settings": entries}
        return TaskSettings(**values, log_level=log_level)

    def applied(self, flow: Flow) -> Flow:
        """`flow`, as it was when the service started, with what has changed since."""
        entries = dict(self.topic_settings)
        for topic, entry in flow.topic_settings.items():
            if entry.transform is not None:
                entries[topic] = replace(entries.get(topic, _NOTHING), transform=entry.transform)
        return replace(flow, **{name: getattr(self, name) for name in _OF_FLOW} | {"topic_settings": entries})

    @property
    def throttles(self) -> dict[str, int]:
        """The flow's throttles, bytes per second, by name."""
        return throttles(self.throttle, self.topic_settings)

    def as_json(self) -> dict[str, Any]:
        """The fields for JSON. An entry of a topic has only what is not null: there may be thousands."""
        entries = {topic: asdict(entry) for topic, entry in self.topic_settings.items()}
        short = {topic: {k: v for k, v in entry.items() if v is not None} for topic, entry in entries.items()}
        return asdict(self) | {"topic_settings": short}

    @staticmethod
    def decoded(raw: Any) -> TaskSettings:
        """Check what `as_json` has made. Raises DecodeError."""
        return TaskSettings(**decode.fields(raw, _CHECKS, _ADDED_LATER))


def _start(raw: Any) -> Start:
    check: decode.Check[Any] = decode.integer() if isinstance(raw, int) else decode.among(("earliest", "latest"))
    found: Start = check(raw)
    return found


def _entry(raw: Any) -> TopicSettings:
    return TopicSettings(**dict.fromkeys(_OF_TOPIC) | decode.fields(raw, {}, _OF_TOPIC))


_throttle = decode.integer(1)
_POLICIES: Mapping[str, decode.Check[Any]] = {
    "on_data_loss": decode.among(("fail", "skip")),
    "on_poison_record": decode.among(("fail", "skip", "dead_letter")),
}
_OF_TOPIC: Mapping[str, decode.Check[Any]] = {
    "remote_topic": decode.topic_name,
    "start": _start,
    "throttle": _throttle,
    **_POLICIES,
}
_CHECKS: Mapping[str, decode.Check[Any]] = {
    "transaction_linger_max": decode.number(0.0, _LONGEST),
    "producer_idle_timeout": decode.number(0.0, _LONGEST),
    "open_transaction_warn_after": decode.number(0.0, _LONGEST),
    "append_to_existing": decode.flag,
    **_POLICIES,
    "topic_settings": decode.keyed(decode.topic_name, _entry),
    "log_level": decode.among(("debug", "info", "warning", "error")),
}
_ADDED_LATER: Mapping[str, decode.Check[Any]] = {
    "throttle": lambda raw: None if raw is None else _throttle(raw),
    "data_path": decode.among(("auto", "records")),
}
_OF_FLOW = tuple(each.name for each in fields(TaskSettings) if each.name != "log_level")
