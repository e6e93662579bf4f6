"""Transforms: a callable of the user's own, which drops or changes records on their way.

    from dataclasses import replace

    from mirror.transform import Record

    def masked(record: Record) -> Record | None:
        if record.value is None:
            return None  # drop it
        return replace(record, value=mask(record.value))

The configuration names it by its dotted path. It gets one record and returns a record, or None to drop it. It may
change everything but where the record goes. The result has to depend on the record alone: mirror calls it again for
records that it has to copy again, and `mirror verify` calls it to compare. Several threads of a task call it at once.

Another record that it returns is checked. The one that it got is not, for that would cost time for each record. It is
frozen, but `object.__setattr__` could change it: nobody notices that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirror.errors import TransformFailed, TransformUnusable
from mirror.user_code import IMPORT_TIMEOUT, Imports, clean, described, of_callable

SIZE_MAX = 1_000_000_000  # bytes of a key or a value, and of all headers together; no client sends more
HEADERS_MAX = 100_000  # in a record
_TIMESTAMP_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the source, and what is to be written in its place.

    The names of headers are as the client library gives them: it cuts a name at its first NUL byte.
    """

    topic: str  # of the source; it can't be changed, and neither can the partition and the offset
    partition: int
    offset: int
    timestamp: int  # ms since the Unix epoch; not above 0 if the record has none
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Transform:
    """A user's callable, together with the check of what it returns."""

    def __init__(self, path: str, function: Callable[[Record], object]) -> None:
        self.path = path
        self._function = function

    def __call__(self, record: Record) -> Record | None:
        """What is to be written in place of `record`; None drops it. Raises TransformFailed.

        The error has no text of the callable's own exception, because that may hold a part of the record.
        """
        try:
            result = self._function(record)
            if result is record or result is None:  # it is frozen, so it is as it was
                return None if result is None else record
            wrong = _wrong(record, result)  # may raise, too: the result may be anything
            if type(result) is Record and not wrong:
                return result
            failed = f"the transform {self.path} returned {wrong}"
        except BaseException as error:  # whatever it is, it must not end the thread
            failed = f"the transform {self.path} raised {described(error)}"
        raise TransformFailed(failed)  # outside of `except`: the exception would keep the record alive


def _wrong(record: Record, result: object) -> str:
    """What is wrong with a result; "" if nothing is.

    A type has to be the very one: 7.0 and True are equal to whole numbers, and no client library sends them.
    """
    if type(result) is not Record:
        return f"an object of type {clean(type(result).__name__)}; it has to return a Record or None"
    same_place = _same(result.partition, record.partition, int) and _same(result.offset, record.offset, int)
    if not same_place or not _same(result.topic, record.topic, str):
        return "another topic, partition or offset, or one of another type; a transform can't send records elsewhere"
    if not _same(result.timestamp, record.timestamp, int) and not _is_timestamp(result.timestamp):
        return "a timestamp that is no whole number from 1 to 2**63 - 1"
    for name, part in (("key", result.key), ("value", result.value)):
        if part is not None and (type(part) is not bytes or len(part) > SIZE_MAX):
            return f"a {name} that is neither None nor bytes, at most {SIZE_MAX:,} of them"
    return "" if result.headers is record.headers else _wrong_headers(result.headers)


def _same(value: object, original: object, kind: type) -> bool:
    return value is original or (type(value) is kind and value == original)


def _is_timestamp(value: object) -> bool:
    return type(value) is int and 1 <= value <= _TIMESTAMP_MAX


def _wrong_headers(headers: Any) -> str:
    if not (type(headers) is tuple or type(headers) is list) or len(headers) > HEADERS_MAX:
        return f"headers that are no tuple of at most {HEADERS_MAX:,} headers"
    size = 0
    for header in headers:
        if type(header) is not tuple or len(header) != 2:
            return "a header that is no tuple of a name and a value"
        name, value = header
        if type(name) is not str or "\0" in name or not _is_utf8(name):
            return "a header's name that is no text without NUL characters"
        if value is not None and type(value) is not bytes:
            return "a header's value that is neither None nor bytes"
        size += len(name) + len(value or b"")
    return f"headers of more than {SIZE_MAX:,} bytes" if size > SIZE_MAX else ""


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_imports: Imports[Transform] = Imports("transform", of_callable(Transform))


def load(path: str, timeout: float = IMPORT_TIMEOUT) -> Transform:
    """The transform with this dotted path, of a module and a name in it; the same at each call.

    Raises TransformUnusable, also if its import takes longer than `timeout` seconds.
    """
    try:
        return _imports.load(path, timeout)
    except ValueError as error:
        reason = str(error)
    raise TransformUnusable(f"the transform {path} can't be used: {reason}")
