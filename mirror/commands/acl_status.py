"""`mirror status --acls`: which ACLs of source topics the target lacks or does not get as they are, asked now.

Nothing is created. The service's page and metrics show the same from its last round, with that round's age.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mirror.commands.text_table import Cell, table
from mirror.errors import MirrorError
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.text import ABSENT, plural
from mirror.topics.acl_rules import UNNAMED
from mirror.topics.acl_sync import AclOutcome, AclStatus, AclSync, unnamed_principals
from mirror.topics.config_sync import ConfigSync


@dataclass(frozen=True, slots=True)
class AclsStatus:
    """The ACLs of one flow; `reason` says why nothing is known of them, "" if it is."""

    flow: str
    synced: bool
    in_step: int
    others: tuple[AclStatus, ...] = ()  # that the target lacks, or does not get as they are
    reason: str = ""
    unnamed: tuple[str, ...] = ()  # principals of copied ACLs that nothing else on the target names

    def as_dict(self) -> dict[str, Any]:
        """The ACLs as they are printed with --json."""
        acls = [asdict(each) for each in self.others]
        return {
            "reason": self.reason,
            "synced": self.synced,
            "in_step": self.in_step,
            "not_in_step": acls,
            "unnamed_principals": list(self.unnamed),
        }


def read_acls(flow: Flow) -> AclsStatus:
    """Compare the ACLs of all mirrored topics whose remote topic exists."""
    try:
        topics = ConfigSync(flow).existing()
        found = AclSync(flow).compare({name: topic.remote for name, topic in topics.items()})
    except MirrorError as error:
        return AclsStatus(flow.name, flow.sync_acls, 0, reason=str(error))
    others = tuple(each for each in found if each.reason or each.outcome is not AclOutcome.IN_STEP)
    in_step = sum(each.outcome is AclOutcome.IN_STEP for each in found)
    return AclsStatus(flow.name, flow.sync_acls, in_step, others, unnamed=tuple(unnamed_principals(found)))


def shown(status: AclsStatus) -> str:
    """The ACLs as a table, one line for each."""
    if status.reason:
        return f"ACLs: {status.reason}"
    synced = "" if status.synced else "; none is created, because sync_acls is false"
    head = f"ACLs: {status.in_step:,} in step{synced}"
    if status.unnamed:
        head += f"\n{plural(len(status.unnamed), 'principal')}: {some_of(status.unnamed)}: {UNNAMED}"
    rows: list[list[Cell]] = [
        [
            str(each.source),
            ABSENT if each.target is None else str(each.target),
            each.outcome.value,
            each.reason or ABSENT,
        ]
        for each in status.others
    ]
    return f"{head}\n\n{table(['ACL on the source', 'on the target', 'outcome', 'reason'], rows)}" if rows else head
