"""Reads the metadata of a committed offset as confluent-kafka gives it."""

from __future__ import annotations

from confluent_kafka import TopicPartition


def metadata_of(committed: TopicPartition) -> str | None:
    """The metadata that somebody has committed; None if there is none, or if it can't be read.

    librdkafka copies metadata without an end. Where the client that has committed it wrote no NUL there, as Java's does
    not, confluent-kafka may read bytes of something else after it.
    """
    try:
        found: str | None = committed.metadata
        return found
    except UnicodeDecodeError:
        return None
