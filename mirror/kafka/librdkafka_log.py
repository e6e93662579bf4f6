"""Everything that mirror reads out of librdkafka's log lines and error texts.

librdkafka says these things in words only, and may change its words in any release. So this is the only module that
knows them. Its contract test compares them with the installed library, and fails for one that is not in CHECKED.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

CHECKED = frozenset({"2.16.0"})  # the versions that the contract test has passed with

LogCall = Sequence[object]  # what librdkafka gives to a logger: facility, name of the client, line

UNKNOWN_PROPERTY = "No such configuration property"  # begins the error for a property that does not exist
NOT_CREATED = "Failed to create "  # begins the error for properties that contradict each other

_METADATA = "METADATA"
_CONNECTION_FAULTS = frozenset({"FAIL", "REQTMOUT"})
_TOPIC_ID = re.compile(r"Topic (\S+) changed id from \S+ to (\S+)")  # from A...A: the id was not known before
_API_VERSION = re.compile(r"ApiKey \w+ \((\d+)\) Versions \d+\.\.(\d+)")
_TRUNCATION = re.compile(r"truncation detected .* broker end offset is (\d+)")
_CREATION = re.compile(rf"^{NOT_CREATED}\w+: ")
_ELAPSED = re.compile(r" \(after \d+ms.*\)$")


def unchecked(version: str) -> tuple[str, str] | None:
    """What to know about an installed librdkafka that is not in CHECKED, and what to do; None for one that is."""
    if version in CHECKED:
        return None
    return (
        f"librdkafka {version} is installed, and mirror was not tested with its log lines, from which it learns of "
        "recreated topics and cut logs",
        f"install a confluent-kafka with librdkafka {' or '.join(sorted(CHECKED))}",
    )


def changed_topic(call: LogCall) -> tuple[str, str] | None:
    """The topic and its new id, from the line that says that a topic's id has changed (`debug=metadata`).

    librdkafka reports a topic that was deleted and created again in no other way.
    """
    if not call or call[0] != _METADATA:
        return None
    found = _TOPIC_ID.search(str(call[-1]))
    return (found[1], found[2]) if found else None


def is_connection_fault(call: LogCall) -> bool:
    """True for the line that says that a connection has failed, or that a request has timed out.

    The first is logged at level 6 with `log.connection.close=true`.
    """
    return bool(call) and call[0] in _CONNECTION_FAULTS


def api_version(line: str) -> tuple[int, int] | None:
    """A request's key and the newest version that a broker supports, from the line about it (`debug=feature`)."""
    found = _API_VERSION.search(line)
    return (int(found[1]), int(found[2])) if found else None


def truncated_at(reason: str) -> int | None:
    """The offset where the leader's log was cut, from the error of a consumer that has noticed it (KIP-320)."""
    found = _TRUNCATION.search(reason)
    return int(found[1]) if found else None


def without_elapsed_time(reason: str) -> str:
    """The text of a connection's error without the milliseconds that it took, so that equal reasons are equal texts."""
    return _ELAPSED.sub("", reason)


def why_not_created(reason: str) -> str:
    """Why a client could not be created, without the words that say that it could not be."""
    return _CREATION.sub("", reason)
