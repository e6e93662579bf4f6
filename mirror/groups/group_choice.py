"""What becomes of a group's translated offset in one partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mirror.groups.group_offsets import Committed
from mirror.groups.translated import Translation
from mirror.groups.translation import Unknown

HAS_MEMBERS = "the group has members on the target"
WOULD_GO_BACK = "the target's offset is higher"
AHEAD = "ahead of the copy: the end of the copy stands for it"


class GroupOutcome(StrEnum):
    """What the last round did with a group's offset in one partition."""

    EXACT = "exact"  # its offset is translated, and stands on the target if groups are synced
    EARLIER = "earlier"  # with active_active: an earlier offset stands for it, so that nothing is passed over
    AHEAD = "ahead"  # the copy is not there yet; the end of the copy stands for its offset
    UNTRANSLATED = "untranslated"  # its offset can't be translated
    ACTIVE = "active"  # the group has members on the target, and is left alone
    BACKWARDS = "backwards"  # the offset on the target is higher, and stays
    DENIED = "denied"  # a cluster does not give or does not take the offset


COMMITTED = (GroupOutcome.EXACT, GroupOutcome.EARLIER, GroupOutcome.AHEAD)  # where groups are synced


@dataclass(frozen=True, slots=True)
class Choice:
    """The translated offset, and whether it may be committed."""

    downstream: int | None
    outcome: GroupOutcome
    reason: str = ""

    @property
    def may_be_committed(self) -> bool:
        """True if nothing on the target speaks against it."""
        return self.outcome in COMMITTED

    @property
    def keeps(self) -> bool:
        """True if what the group has on the target is committed again as it is, so that the target does not forget it.

        Otherwise a lower offset could follow one day: the group would go back, and nobody has asked for it.
        """
        return self.outcome in (GroupOutcome.BACKWARDS, GroupOutcome.UNTRANSLATED)


def choose(translation: Translation, end: Translation, before: int | None, active: bool) -> Choice:
    """What becomes of a translated offset.

    `end` is the end of the copy, `before` the group's offset on the target. `active`: the group has members there.
    """
    ahead = translation.reason == Unknown.NOT_COPIED.value and end.translated is not None
    wanted = end.translated if ahead else translation.translated
    if wanted is None:
        return Choice(None, GroupOutcome.UNTRANSLATED, translation.reason)
    if before is not None and wanted < before:
        return Choice(wanted, GroupOutcome.BACKWARDS, f"{WOULD_GO_BACK}: {before} instead of {wanted}")
    if active and before != wanted:
        return Choice(wanted, GroupOutcome.ACTIVE, HAS_MEMBERS)
    if ahead:
        return Choice(wanted, GroupOutcome.AHEAD, AHEAD)
    return Choice(wanted, GroupOutcome.EARLIER if translation.reason else GroupOutcome.EXACT, translation.reason)


def is_due(before: Committed | None, wanted: Committed, age: float | None, renew_interval: float) -> bool:
    """True if the offset has changed, or was committed so long ago that the target could remove it.

    `before` is the group's offset on the target, `age` the seconds since it was committed here; None: it never was.
    """
    return before != wanted or age is None or age > renew_interval
