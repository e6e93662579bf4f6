"""Recorders of rows that need another service or another topic."""

from __future__ import annotations

import zlib
from dataclasses import replace
from types import TracebackType
from typing import Any

from tests.chaos.arena import Arena
from tests.chaos.recorder import Recorder
from tests.checker.checker import Violation
from tests.checker.compacted import check_compacted
from tests.checker.history import History, Record
from tests.harness.load import keyed
from tests.harness.pair import Pair

TRANSFORM = "shop_transforms.without_a_third"


class OwnServiceRecorder(Recorder):
    """The recorder of a service with a configuration of its own, which replaces the arena's until the end."""

    def __init__(self, arena: Arena, pair: Pair, **flow: Any) -> None:
        self._arena, self._flow = arena, flow
        assert arena.service.terminate() == 0, arena.service.tail()
        super().__init__(pair)
        self.start_service()

    def start_service(self, wait: bool = True) -> None:
        """Start it, for the first time or again, and wait for its plan unless told otherwise."""
        service = self._arena.start_service(pair=self.pair, **self._flow)
        if wait:
            service.await_plan()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        own = self._arena.service
        try:
            super().__exit__(kind, error, trace)
            code = own.terminate()
        except Exception:
            if error is None:  # else it would hide that
                raise
        finally:
            own.close()  # if it did not end
            self._arena.start_service().await_plan()
        assert error is not None or code == 0, f"exit code {code}"


def is_dropped(record: Record) -> bool:
    """What `TRANSFORM` leaves out, said by the judge."""
    return zlib.crc32((record.key or b"") + (record.value or b"")) % 3 == 0


class TransformRecorder(OwnServiceRecorder):
    """The recorder of a service with a transform that drops a third of the records."""

    drops = staticmethod(is_dropped)

    def __init__(self, arena: Arena) -> None:
        pair = Pair(arena.pair.source, arena.pair.target, "thirds", "thirds-")
        super().__init__(arena, pair, transform=TRANSFORM)

    @classmethod
    def at(cls, arena: Arena) -> TransformRecorder:
        """A recorder in this place."""
        return cls(arena)


class CompactedRecorder(Recorder):
    """The recorder of a compacted topic, which has a few keys that come again and again, and tombstones."""

    make = staticmethod(keyed)

    def __init__(self, pair: Pair) -> None:
        # The lag, for the concurrent reader has to see all records before the target's compaction removes them.
        lag = {"min_compaction_lag_ms": 3_000}
        super().__init__(pair, cleanup_policy="compact", segment_ms=500, min_cleanable_dirty_ratio=0.01, **lag)

    def finish(self) -> list[History]:
        """Stop the load, wait until all is copied, and read everything. The histories have no samples.

        Compaction removes records, so nobody can tell how many records were before a sampled position.
        """
        return [replace(history, samples=[]) for history in super().finish()]

    @staticmethod
    def judge(history: History) -> list[Violation]:
        """All that is wrong with the history of a compacted topic."""
        return check_compacted(history)
