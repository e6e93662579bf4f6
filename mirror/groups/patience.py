"""How long a part of a group round waits for the coordinators of groups that do not answer."""

from __future__ import annotations

import time

from mirror.errors import ClusterAway, PartitionError

LONG, SHORT = 10.0, 1.0  # seconds to wait for an answer about a group
LONG_MAX = 3  # groups without an answer for which we wait long; for others after them, only shortly
AWAY_AFTER = 12  # groups without an answer after which the cluster counts as away, unless another one had an answer
TOO_SLOW = 5.0  # seconds that one of them may take then: a longer wait was for something that any broker can answer


class Patience:
    """For one part of a round: reading offsets on the source, or syncing.

    A partition of __consumer_offsets can be offline, or a broker cut off, for hours. Other groups are synced then.
    """

    def __init__(self) -> None:
        self._answered = False
        self._unanswered: list[ClusterAway] = []
        self._began = time.monotonic()

    @property
    def timeout(self) -> float:
        """Seconds to wait for the next answer."""
        return LONG if len(self._unanswered) < LONG_MAX else SHORT

    def begin(self) -> None:
        """From now on the cluster is asked about the next group. Otherwise that counts from the last `note`.

        What was done before, such as translating the group's offsets, is no wait for its coordinator.
        """
        self._began = time.monotonic()

    def note(self, error: ClusterAway | PartitionError | None) -> None:
        """How it went with the next group. Raises the error if the cluster must be away, and not just a coordinator."""
        took, self._began = time.monotonic() - self._began, time.monotonic()
        if not isinstance(error, ClusterAway):
            self._answered = True
            return
        self._unanswered.append(error)
        if took > TOO_SLOW and len(self._unanswered) > LONG_MAX:
            raise error
        if len(self._unanswered) >= AWAY_AFTER:
            self.end()

    def end(self) -> None:
        """No other group follows. Raises ClusterAway if none at all had an answer, and these were more than a few."""
        if len(self._unanswered) > LONG_MAX and not self._answered:
            raise self._unanswered[-1]
