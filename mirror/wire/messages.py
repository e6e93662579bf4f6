"""Encodes the requests that reading needs, and decodes their answers. Pure; names are those of Kafka's messages."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.errors import Malformed
from mirror.wire.cursor import Cursor, sized, string


@dataclass(frozen=True, slots=True)
class Api:
    """One type of request in one version."""

    name: str
    key: int
    version: int


FETCH = Api("Fetch", 1, 11)
METADATA = Api("Metadata", 3, 8)
SASL_HANDSHAKE = Api("SaslHandshake", 17, 1)
API_VERSIONS = Api("ApiVersions", 18, 0)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 0)

# Error codes.
NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE = 0, 1, 3, 5
REPLICA_NOT_AVAILABLE, UNSUPPORTED_SASL_MECHANISM = 9, 33
# Errors that pass by themselves: a leader moves, a broker does not know a topic or a leader yet, or a broker is
# starting, is slow or has lost a disk.
PASSING: Mapping[int, str] = {
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    LEADER_NOT_AVAILABLE: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    REPLICA_NOT_AVAILABLE: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    56: "KAFKA_STORAGE_ERROR",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
}
_NAMES = {
    **PASSING,
    -1: "UNKNOWN_SERVER_ERROR",
    2: "CORRUPT_MESSAGE",
    17: "INVALID_TOPIC_EXCEPTION",
    29: "TOPIC_AUTHORIZATION_FAILED",
    34: "ILLEGAL_SASL_STATE",
    35: "UNSUPPORTED_VERSION",
    58: "SASL_AUTHENTICATION_FAILED",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
}


def error_name(code: int) -> str:
    """The name of an error code in Kafka's documentation."""
    return _NAMES.get(code, f"error code {code}")


def header(api: Api, correlation: int, client: str) -> bytes:
    """The header of a request, version 1."""
    return struct.pack(">hhi", api.key, api.version, correlation) + string(client)


def api_versions(answer: Cursor) -> dict[int, tuple[int, int]]:
    """The first and the last version of each request that the broker supports."""
    error = answer.int16()
    found = answer.array(lambda each: (each.int16(), each.int16(), each.int16()), 6)
    if error != NONE:
        raise Malformed(f"ApiVersions was answered with {error_name(error)}")
    return {key: (first, last) for key, first, last in found}


def sasl_handshake(mechanism: str) -> bytes:
    """Announce the mechanism of the login that follows."""
    return string(mechanism)


def sasl_handshake_answer(answer: Cursor) -> tuple[int, list[str]]:
    """An error code, and the mechanisms that the broker supports."""
    return answer.int16(), answer.array(Cursor.string, 2)


def sasl_authenticate(message: bytes) -> bytes:
    """Send one message of the mechanism."""
    return sized(message)


def sasl_authenticate_answer(answer: Cursor) -> tuple[int, str, bytes]:
    """An error code, its message, and the mechanism's own answer."""
    return answer.int16(), answer.string(), bytes(answer.bytes())


@dataclass(frozen=True, slots=True)
class Leaders:
    """A topic: brokers' addresses by node id, and by partition an error code and the node id of its leader."""

    error: int
    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[int, tuple[int, int]]


def metadata(topic: str) -> bytes:
    """Ask for the metadata of one topic, without creating it."""
    return struct.pack(">i", 1) + string(topic) + b"\0\0\0"


def metadata_answer(answer: Cursor, topic: str) -> tuple[int, Leaders]:
    """The time for which the broker throttles us (ms), and the leaders."""
    throttled = answer.int32()
    brokers = {node: (host, port) for node, host, port in answer.array(_broker, 12)}
    answer.string(), answer.int32()  # cluster id, controller
    topics = dict(answer.array(_topic, 9))
    answer.int32()
    if topic not in topics:
        raise Malformed(f"the answer to a Metadata request for {topic} does not have that topic")
    error, partitions = topics[topic]
    return throttled, Leaders(error, brokers, partitions)


def _broker(answer: Cursor) -> tuple[int, str, int]:
    node, host, port, _ = answer.int32(), answer.string(), answer.int32(), answer.string()
    if not 0 < port < 2**16:
        raise Malformed(f"a broker has port {port}")
    return node, host, port


def _topic(answer: Cursor) -> tuple[str, tuple[int, dict[int, tuple[int, int]]]]:
    error, name, _ = answer.int16(), answer.string(), answer.int8()
    partitions = {number: (failed, leader) for number, failed, leader in answer.array(_partition, 26)}
    answer.int32()
    return name, (error, partitions)


def _partition(answer: Cursor) -> tuple[int, int, int]:
    error, number, leader, _ = answer.int16(), answer.int32(), answer.int32(), answer.int32()
    for _ in ("replicas", "in sync", "offline"):
        answer.array(Cursor.int32, 4)
    return number, error, leader


@dataclass(frozen=True, slots=True)
class Fetched:
    """A leader's answer for one partition: an error code, or record batches and the aborted transactions in them."""

    error: int
    aborted: Sequence[tuple[int, int]]  # producer id, first offset
    records: memoryview


def fetch(topic: str, partition: int, offset: int, wait: int, most: int, stable: bool = True) -> bytes:
    """Ask for records from `offset` on. The broker waits up to `wait` ms for some.

    The answer has about `most` bytes, and at least one whole batch. If `stable`, it ends with the last stable offset,
    and says what was aborted.
    """
    head = struct.pack(">iiiibii", -1, wait, 1, most, stable, 0, -1)  # without a fetch session
    where = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, most)
    return head + struct.pack(">i", 1) + string(topic) + where + struct.pack(">i", 0) + string("")


def fetch_answer(answer: Cursor, topic: str, partition: int) -> tuple[int, Fetched]:
    """The time for which the broker throttles us (ms), and the fetched data."""
    throttled, error, _ = answer.int32(), answer.int16(), answer.int32()
    found = [(name, each) for name, some in answer.array(_fetched_topic, 6) for each in some]
    if error != NONE:
        return throttled, Fetched(error, (), memoryview(b""))
    if len(found) != 1 or (found[0][0], found[0][1][0]) != (topic, partition):
        raise Malformed(f"the answer to a Fetch request for {topic}-{partition} does not have that partition")
    return throttled, found[0][1][1]


def _fetched_topic(answer: Cursor) -> tuple[str, list[tuple[int, Fetched]]]:
    return answer.string(), answer.array(_fetched_partition, 42)


def _fetched_partition(answer: Cursor) -> tuple[int, Fetched]:
    number, error = answer.int32(), answer.int16()
    for _ in ("high watermark", "last stable offset", "log start"):
        answer.int64()
    aborted = answer.array(lambda each: (each.int64(), each.int64()), 16)
    answer.int32()  # preferred read replica: set only for clients with a rack id
    return number, Fetched(error, aborted, answer.bytes())
