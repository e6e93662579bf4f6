"""The requests that reading needs, and their answers. Pure; names are those of Kafka's own message definitions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.errors import Malformed
from mirror.wire.cursor import Cursor, sized, string


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request, in one version."""

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
# Those that pass by themselves: leaders that move, a topic or a leader that a broker has not heard of yet, a broker
# that starts, is slow, or has lost a disk.
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
    """An error code as Kafka's documentation writes it."""
    return _NAMES.get(code, f"error code {code}")


def header(api: Api, correlation: int, client: str) -> bytes:
    """A request's header, version 1."""
    return struct.pack(">hhi", api.key, api.version, correlation) + string(client)


def api_versions(answer: Cursor) -> dict[int, tuple[int, int]]:
    """The first and last version of each request that a broker answers."""
    error = answer.int16()
    found = answer.array(lambda each: (each.int16(), each.int16(), each.int16()), 6)
    if error != NONE:
        raise Malformed(f"ApiVersions was answered with {error_name(error)}")
    return {key: (first, last) for key, first, last in found}


def sasl_handshake(mechanism: str) -> bytes:
    """Which mechanism follows."""
    return string(mechanism)


def sasl_handshake_answer(answer: Cursor) -> tuple[int, list[str]]:
    """An error code, and the mechanisms that the broker has."""
    return answer.int16(), answer.array(Cursor.string, 2)


def sasl_authenticate(message: bytes) -> bytes:
    """One message of the mechanism."""
    return sized(message)


def sasl_authenticate_answer(answer: Cursor) -> tuple[int, str, bytes]:
    """An error code and its words, and the mechanism's own answer."""
    return answer.int16(), answer.string(), bytes(answer.bytes())


@dataclass(frozen=True, slots=True)
class Leaders:
    """Of one topic: addresses of brokers by node, and of each partition an error code and its leader's node."""

    error: int
    brokers: Mapping[int, tuple[str, int]]
    partitions: Mapping[int, tuple[int, int]]


def metadata(topic: str) -> bytes:
    """Ask for one topic, which is not to be created."""
    return struct.pack(">i", 1) + string(topic) + b"\0\0\0"


def metadata_answer(answer: Cursor, topic: str) -> tuple[int, Leaders]:
    """For how long the broker throttles us (ms), and the leaders."""
    throttled = answer.int32()
    brokers = {node: (host, port) for node, host, port in answer.array(_broker, 12)}
    answer.string(), answer.int32()  # cluster id, controller
    topics = dict(answer.array(_topic, 9))
    answer.int32()
    if topic not in topics:
        raise Malformed(f"Metadata of {topic} were asked for, and others given")
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
    """What a leader gave of one partition: an error code, or batches and the transactions in them that were aborted."""

    error: int
    aborted: Sequence[tuple[int, int]]  # producer id, first offset
    records: memoryview


def fetch(topic: str, partition: int, offset: int, wait: int, most: int) -> bytes:
    """Ask for what is committed from an offset on: about `most` bytes, but a whole batch; waits `wait` ms for some."""
    head = struct.pack(">iiiibii", -1, wait, 1, most, 1, 0, -1)  # no session
    where = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, most)
    return head + struct.pack(">i", 1) + string(topic) + where + struct.pack(">i", 0) + string("")


def fetch_answer(answer: Cursor, topic: str, partition: int) -> tuple[int, Fetched]:
    """For how long the broker throttles us (ms), and what it gave."""
    throttled, error, _ = answer.int32(), answer.int16(), answer.int32()
    found = [(name, each) for name, some in answer.array(_fetched_topic, 6) for each in some]
    if error != NONE:
        return throttled, Fetched(error, (), memoryview(b""))
    if len(found) != 1 or (found[0][0], found[0][1][0]) != (topic, partition):
        raise Malformed(f"{topic}-{partition} was asked for, and something else given")
    return throttled, found[0][1][1]


def _fetched_topic(answer: Cursor) -> tuple[str, list[tuple[int, Fetched]]]:
    return answer.string(), answer.array(_fetched_partition, 42)


def _fetched_partition(answer: Cursor) -> tuple[int, Fetched]:
    number, error = answer.int32(), answer.int16()
    for _ in ("high watermark", "last stable offset", "log start"):
        answer.int64()
    aborted = answer.array(lambda each: (each.int64(), each.int64()), 16)
    answer.int32()  # preferred replica: only for clients that name their rack
    return number, Fetched(error, aborted, answer.bytes())
