"""What loading a position is, whichever client does it: how an answer is known to be of now, and how long to wait."""

from __future__ import annotations

import itertools
import uuid

from mirror.target.position_metadata import without_end

TIMEOUT = 10.0  # seconds
LOOK_INTERVAL = 0.02  # seconds
DEPOSED = "a stale group coordinator, which accepts no commits any more"
_NUMBER_MAX = 20  # digits


class Tokens:
    """The tokens of one reader of positions, in the order in which they were made. Any thread may call it.

    A coordinator that hung, or is cut off from the other brokers, may not know that it was deposed. It answers
    OffsetFetch from its memory. With such an old position, records would be copied again. But it can't commit anything
    any more. So a token is committed first, under a topic that mirror may read. An answer counts only if it has a token
    that was made since the call began.
    """

    def __init__(self) -> None:
        self._identity = uuid.uuid4().hex
        self._numbers = itertools.count()

    def begin(self) -> int:
        """A number for `is_since`, of a call that begins now."""
        return next(self._numbers)

    def make(self) -> str:
        """A token to commit."""
        return f"{self._identity}/{next(self._numbers)}"

    def is_since(self, began: int, token: str | None) -> bool:
        """True if the token is ours, and was made after the call with the number `began`.

        Whoever may commit to the group may write anything in its place.
        """
        identity, _, number = without_end(token or "").partition("/")
        return identity == self._identity and number.isdecimal() and len(number) < _NUMBER_MAX and int(number) > began


def held(what: str, producer: str = "") -> str:
    """The reason, for people: an open transaction holds a position, or a remote partition."""
    book = "docs/runbooks/MirrorPartitionRetrying.md"
    return f"{what} is held by an open transaction{producer}; should that last, see {book}"


def not_given_yet(where: str, offset: int) -> str:
    """The reason, for people: the leader of a remote partition was elected just now."""
    return f"{where} does not give the records up to {offset} yet"


def doubtful(where: str, token_topic: str) -> str:
    """The reason, for people: no answer has a token of ours."""
    return (
        f"the position of {where} comes from {DEPOSED}; or {token_topic} is missing, which the flow leader makes again"
    )
