"""An offset on one side, and its translation, as they are shown and committed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.model import Partition


@dataclass(frozen=True, slots=True)
class Translation:
    """An offset on one side, and its translation. If that is not known, it is None, and `reason` says why.

    `offset` is None if the cluster has refused to give the group's offset: then `reason` has its words. `remote` is ""
    if the flow does not mirror the topic.
    With `active_active` a translation that is known has a reason, too: it says what the translation does not cover.
    """

    partition: Partition  # of the source
    remote: str
    offset: int | None
    translated: int | None
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        """The translation as it is printed with --json."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "remote": self.remote,
            "offset": self.offset,
            "translated": self.translated,
            "reason": self.reason,
        }
