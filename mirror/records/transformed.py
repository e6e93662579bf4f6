"""Applies a topic's transform to the source's records, as copying does, so that both sides can be compared."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from mirror.batches.records import Content, Header, decode, encode
from mirror.errors import NotComparable, TransformFailed
from mirror.records.consumed import Record as Encoded
from mirror.transform import Record, Transform, load

_FAILED = object()


def transformed(path: str, topic: str, partition: int, records: Iterable[Encoded]) -> Generator[Encoded, None, None]:
    """What the transform makes of these records, without those that it drops.

    A record for which it fails has no content, and so equals no other: mirror does not copy it either. Raises
    TransformUnusable, or NotComparable if the transform makes two different things of one record.
    """
    transform = load(path)
    for offset, timestamp, encoded in records:
        content = None if encoded is None else decode(encoded)
        headers = None if content is None else _headers(content)
        if content is None or headers is None:
            yield offset, timestamp, None
            continue
        record = Record(topic, partition, offset, timestamp, content.key, content.value, headers)
        result = _outcome(transform, record)
        if result != _outcome(transform, record):
            raise NotComparable(
                f"{topic}-{partition} is not comparable: the transform {path} makes different things of the record at "
                f"offset {offset} when it is called twice; a transform must depend on the record alone"
            )
        if isinstance(result, Record):
            yield offset, result.timestamp, encode(_content(content, record, result))
        elif result is _FAILED:
            yield offset, timestamp, None


def _outcome(transform: Transform, record: Record) -> object:
    try:
        return transform(record)
    except TransformFailed:
        return _FAILED


def _headers(content: Content) -> tuple[tuple[str, bytes | None], ...] | None:
    """The headers as a transform gets them, from librdkafka: names are cut at a NUL byte. None if one is not UTF-8."""
    try:
        return tuple(((name or b"").decode().partition("\0")[0], value) for name, value in content.headers)
    except UnicodeDecodeError:
        return None


def _content(content: Content, record: Record, result: Record) -> Content:
    headers: list[Header] = [(name.encode(), value) for name, value in result.headers]
    # Names that librdkafka has cut differ from those on the target, as without a transform.
    kept = result.headers == record.headers
    return Content(result.key, result.value, content.headers if kept else headers)
