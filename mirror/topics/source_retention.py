"""For how long the source keeps the records of each topic of a flow, as its configurations say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.errors import MirrorError
from mirror.kafka.cluster import ClusterAdmin
from mirror.settings import Flow

LOOK_INTERVAL = 5.0  # seconds between two looks for topics that are new
READ_INTERVAL = 300.0  # seconds after which all configurations are read again
CLEANUP, TIME = "cleanup.policy", "retention.ms"


def kept_for(config: Mapping[str, str]) -> float | None:
    """Seconds after which a broker deletes a record, by its timestamp; None if it deletes none by time.

    `config` is the whole configuration of a topic. Limits by size (`retention.bytes`) are not looked at.
    """
    if "delete" not in config.get(CLEANUP, ""):
        return None
    try:
        milliseconds = int(config.get(TIME, ""))
    except ValueError:
        return None
    return milliseconds / 1000 if milliseconds > 0 else None


class SourceRetention(FlowLeaderPart):
    """Reads the retention of the flow's topics now and then, in a thread of its own. Only the flow leader has one."""

    def __init__(
        self, flow: Flow, topics: Callable[[], Collection[str]], tell: Callable[[Mapping[str, float]], object]
    ) -> None:
        """`topics` gives the source topics of the plan. `tell` gets the seconds of those that are deleted by time.

        Both are called in another thread, `tell` never after `stop` has returned.
        """
        super().__init__("retention", flow)
        self._topics = topics
        self._tell = tell

    @property
    def wanted(self) -> bool:
        """Always: each flow shows the time until retention overtakes a position."""
        return True

    def _work(self, stopping: threading.Event) -> None:
        source = ClusterAdmin(self._flow.source)
        known: dict[str, float | None] = {}
        due = 0.0
        while not stopping.is_set():
            topics = set(self._topics())
            whole = time.monotonic() >= due
            wanted = sorted(topics if whole else topics - known.keys())
            read = _read(source, wanted) if wanted else None
            if read is not None:
                known = {name: seconds for name, seconds in (known | read).items() if name in topics}
                due = time.monotonic() + READ_INTERVAL if whole else due
                kept = {name: seconds for name, seconds in known.items() if seconds is not None}
                self._thread.tell(partial(self._tell, kept))
            stopping.wait(LOOK_INTERVAL)


def _read(source: ClusterAdmin, names: list[str]) -> dict[str, float | None] | None:
    """The retention of each topic, None where it is not known; None in all if the source does not answer now."""
    try:
        configs, _ = source.topic_configs(names, own=False)
    except MirrorError:  # the flow leader logs that
        return None
    return {name: kept_for(configs.get(name, {})) for name in names}
