"""Transactions of which nobody knows whether they took effect, and what the target then shows of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirror.model import Position, Topic

TORN = "the target has torn the last transaction apart: of its records and its position it has committed only one"


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A transaction whose commit was asked for, and has not succeeded as far as we know.

    A broker that is killed just then, and starts again before the others miss it, may commit the transaction in some of
    its partitions, and the coordinator that follows may abort it in the others. The broker sends the markers of a
    commit that nobody else has in the log: it has read its copy of the log to the end, and not to the high watermark
    (seen with Kafka 4.2.0). So the position alone does not tell whether the records are there.
    """

    before: Position  # where it begins
    after: Position  # the one that it commits
    first: int  # the downstream offset of its first record
    is_first: bool = False  # True if nothing was committed before it, so `before` is not on the target

    def concerns(self, found: Position | None) -> bool:
        """True if nobody has gone on since, as far as `found` tells, the position that the target has."""
        return self._is_before(found) or self._is_own(found)

    def belonging(self, found: Position | None, visible: bool | None) -> Position | None:
        """The position that belongs to the records, if the transaction was torn apart; else None.

        `found` is the position that the target has. `visible` says whether read_committed consumers see the first
        record; None: that is not known. The entries of the offset map may have been torn off, too.
        """
        if visible is None or not (self._is_before(found) if visible else self._is_own(found)):
            return None
        at = self.after if visible else self.before
        return replace(at, resets=1 + (found or at).resets, map_end=None)

    def _is_before(self, found: Position | None) -> bool:
        return self.is_first if found is None else not self.is_first and _same(found, self.before)

    def _is_own(self, found: Position | None) -> bool:
        """Another owner that has copied the same records since begins the map with an entry at another place."""
        return found is not None and _same(found, self.after) and found.map_end == self.after.map_end


class UnconfirmedTransactions(dict[tuple[str, int], Unconfirmed]):
    """Those of a task, by remote partition, of both data paths: one partition has one copier at a time."""

    def of(self, topic: Topic, partition: int) -> Unconfirmed | None:
        """The last one of a partition, if nobody knows yet what has become of it.

        Once another topic has the place of the remote one, nothing of it is there, and it is forgotten.
        """
        last = self.get((topic.remote, partition))
        if last is not None and topic.remote_id and last.after.remote_id not in ("", topic.remote_id):
            self.pop((topic.remote, partition))
            return None
        return last

    def note(
        self, where: tuple[str, int], before: Position, asked: tuple[Position, int] | None, *, is_first: bool
    ) -> None:
        """A transaction has failed: the next take-over finds out what the target has made of it.

        `before` is where it begins, `is_first` is True if nothing was committed there, and `asked` is what its session
        says of its commit.
        """
        if asked is not None:
            self[where] = Unconfirmed(before, *asked, is_first)


def _same(one: Position, other: Position) -> bool:
    return (one.progress, one.topic_id, one.remote_id) == (other.progress, other.topic_id, other.remote_id)
