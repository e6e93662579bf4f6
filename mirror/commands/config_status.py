"""`mirror status --configs`: where configurations of remote topics differ from those of their source topics, asked now.

Nothing is altered. The service's page and metrics show the same from its last round, with that round's age.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mirror.commands.text_table import Cell, table
from mirror.errors import MirrorError
from mirror.settings import Flow
from mirror.text import ABSENT, plural
from mirror.topics.config_sync import ConfigOutcome, ConfigSync, TopicConfig

REMOVED = "(the target's default)"


@dataclass(frozen=True, slots=True)
class ConfigStatus:
    """The configurations of one flow; `reason` says why nothing is known of them, "" if it is."""

    flow: str
    synced: bool
    in_step: int  # topics
    others: tuple[TopicConfig, ...] = ()  # that are not in step
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The configurations as they are printed with --json."""
        topics = [asdict(each) for each in self.others]
        return {"reason": self.reason, "synced": self.synced, "in_step": self.in_step, "not_in_step": topics}


def read_configs(flow: Flow) -> ConfigStatus:
    """Compare the configurations of all mirrored topics whose remote topic exists."""
    try:
        sync = ConfigSync(flow)
        found = [each for some in sync.compare(sync.existing()) for each in some]
    except MirrorError as error:
        return ConfigStatus(flow.name, flow.sync_topic_configs, 0, reason=str(error))
    others = tuple(each for each in found if each.outcome is not ConfigOutcome.IN_STEP)
    return ConfigStatus(flow.name, flow.sync_topic_configs, len(found) - len(others), others)


def shown(status: ConfigStatus) -> str:
    """The differences as a table, one line for each key."""
    if status.reason:
        return f"configurations: {status.reason}"
    synced = "" if status.synced else "; they are not altered, because sync_topic_configs is false"
    head = f"configurations: {plural(status.in_step, 'topic')} in step, {len(status.others):,} not{synced}"
    rows: list[list[Cell]] = []
    for each in status.others:
        rows += [
            [each.topic, each.remote, c.key, c.before, REMOVED if c.now is None else c.now, ABSENT]
            for c in each.changes
        ]
        if each.reason:
            rows.append([each.topic, each.remote, ABSENT, ABSENT, ABSENT, each.reason])
    return head if not rows else f"{head}\n\n{table(['topic', 'remote topic', 'key', 'now', 'to be', 'reason'], rows)}"
