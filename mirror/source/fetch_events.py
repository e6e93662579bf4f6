"""What a fetcher tells of a partition. The partition's own step learns of it when it drains its inbox.

Nothing here belongs to librdkafka, so that another fetcher can post the same events.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadingBegan:
    """The partition is fetched from now on."""


@dataclass(frozen=True, slots=True)
class RecordsArrived:
    """The buffer has new records."""


@dataclass(frozen=True, slots=True)
class EndReached:
    """The source has no more records now. The buffer knows up to which offset."""


@dataclass(frozen=True, slots=True)
class SourceRefused:
    """The source gives no records. This no longer holds once some arrive, or once its end is reached.

    `lasting`: it refuses until a person changes a permission, a policy or a setting.
    """

    reason: str
    lasting: bool


@dataclass(frozen=True, slots=True)
class ReadingLost:
    """Nothing that follows the buffered records can be fetched. The fetcher has sealed the buffer.

    The next batch is `damaged`, or the offset is gone, or the topic is another one.
    """

    reason: str
    damaged: bool = False


FetchEvent = ReadingBegan | RecordsArrived | EndReached | SourceRefused | ReadingLost
