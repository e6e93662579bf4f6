"""Asks a cluster for offsets of its partitions: the first, the last, or that of a time (ListOffsets)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from mirror.model import Partition

OFFSETS_TIMEOUT = 10.0  # seconds
NO_OFFSET = -1  # the answer for a timestamp after the newest record


def list_offsets(
    admin: AdminClient,
    asked: Mapping[Partition, OffsetSpec],
    stable: bool = True,
    refused: dict[Partition, KafkaError] | None = None,
) -> dict[Partition, int]:
    """The offsets, without partitions whose leader gives none now: these are added to `refused`, with the reason.

    With `stable`, latest is the last stable offset.
    """
    return {partition: int(found.offset) for partition, found in list_results(admin, asked, stable, refused).items()}


def list_results(
    admin: AdminClient,
    asked: Mapping[Partition, OffsetSpec],
    stable: bool,
    refused: dict[Partition, KafkaError] | None = None,
) -> dict[Partition, ListOffsetsResultInfo]:
    """What the leaders answer, with their epochs. `list_offsets` takes only the offsets out of it."""
    if not asked:
        return {}
    refresh_metadata(admin, OFFSETS_TIMEOUT)
    specs = {TopicPartition(*partition): spec for partition, spec in asked.items()}
    isolation = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    futures = admin.list_offsets(specs, isolation_level=isolation, request_timeout=OFFSETS_TIMEOUT)
    found, deadline = {}, time.monotonic() + 2 * OFFSETS_TIMEOUT  # one limit for all: librdkafka can forget a request
    why = {} if refused is None else refused
    for tp, future in futures.items():
        partition = Partition(tp.topic, tp.partition)
        try:
            result = future.result(max(0.0, deadline - time.monotonic()))
            checked_offset(result)
            found[partition] = result
        except KafkaException as error:
            why[partition] = error.args[0]
        except TimeoutError:
            why[partition] = KafkaError(KafkaError._TIMED_OUT)
    return found


def refresh_metadata(admin: AdminClient, timeout: float) -> None:
    """Refresh what librdkafka knows of leaders and controller, waiting `timeout` seconds at most.

    Without it librdkafka keeps asking the leaders that it knows, even if they answer that they are no longer leaders,
    and a controller that is down. It also takes minutes to learn of a partition that was just added.
    """
    with contextlib.suppress(KafkaException):
        admin.list_topics(timeout=timeout)


def checked_offset(result: ListOffsetsResultInfo) -> int:
    """The offset in a broker's answer; -1 if no record is as new as the timestamp that was asked for.

    Raises KafkaException if the answer has no offset. librdkafka reports success with OFFSET_INVALID when the leader is
    away.
    """
    if result.offset < NO_OFFSET:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return int(result.offset)
