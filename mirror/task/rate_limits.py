"""The throttles of a task: how many bytes its partitions may copy, and when each one may.

Nobody sleeps here. A partition that may not copy yet gets a *turn*, and its next step is due then. Turns are given in
the order in which they are asked for, so that no partition waits for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from mirror.batches.merging import MERGED_MAX
from mirror.clock import Clock
from mirror.control.throttle_shares import OF_FLOW, Share
from mirror.text import byte_rate

BURST = 0.5  # seconds: bytes that were not used in this time may be copied now, beyond the rate
AT_ONCE = 0.25  # seconds: a batch can't be divided, so one that takes longer would come in a burst
GROW_AFTER = 5.0  # seconds after a new plan until a share grows: until then, other tasks may have their larger ones


@dataclass(frozen=True, slots=True)
class Turn:
    """When a partition may copy, and how many bytes. They are reserved in the bucket."""

    bucket: Bucket
    at: float  # monotonic
    reserved: int  # bytes
    max_bytes: int  # about as much as the share allows in a second, or less if others wait


class Bucket:
    """One share: gives turns so that no more than `share.rate` bytes a second are copied. Any thread may call it."""

    def __init__(self, share: Share, reason: str, clock: Clock, begins: float) -> None:
        self.share = share
        self.reason = reason  # for people
        self._clock = clock
        self._next = begins  # monotonic: when the next turn begins
        self._owed_until = begins  # monotonic: at the rate, all that was copied would have taken until then
        self._lock = threading.Lock()

    def turn(self, wanted: int) -> Turn:
        """Reserve the next turn, to copy `wanted` bytes or fewer."""
        now = self._clock.monotonic()
        with self._lock:
            at = max(self._next, now - BURST)
            # The longer the queue, the smaller the turns: so a queue of n partitions takes about the root of n seconds.
            max_bytes = max(1, int(self.share.rate / (1 + max(0.0, at - now))))
            reserved = min(wanted, max_bytes)
            self._next = at + reserved / self.share.rate
        return Turn(self, at, reserved, max_bytes)

    def copied(self, turn: Turn, size: int) -> None:
        """Count `size` bytes that were copied in a turn. One record may be larger than what was reserved."""
        now = self._clock.monotonic()
        with self._lock:
            self._next += (size - turn.reserved) / self.share.rate
            self._owed_until = max(self._owed_until, now - BURST) + size / self.share.rate

    def follow(self, share: Share, reason: str) -> Bucket:
        """A bucket with another share, which pays back what this one copied too early. Turns of this one are void."""
        now = self._clock.monotonic()
        with self._lock:
            owed = max(0.0, self._owed_until - now) * self.share.rate
        return Bucket(share, reason, self._clock, now + owed / share.rate)


class RateLimits:
    """The buckets of a task. The plan follower keeps them in step with the plan; steps ask for turns."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shares: Mapping[str, Share] | None = None  # those of the newest plan
        self._since = 0.0  # monotonic: when that plan came
        self._settled = True  # the buckets have the shares of the newest plan
        self._by_name: dict[str, Bucket] = {}
        self._of_topic: Mapping[str, tuple[Bucket, ...]] = {}
        self._of_others: tuple[Bucket, ...] = ()

    def of(self, topic: str) -> tuple[Bucket, ...]:
        """The buckets from which partitions of the topic need a turn each, in this order; empty without a throttle."""
        return self._of_topic.get(topic, self._of_others)

    def at_once(self, topic: str) -> int:
        """Bytes of small batches of the topic that may become one: those of AT_ONCE, at most MERGED_MAX."""
        return min([MERGED_MAX, *(int(bucket.share.rate * AT_ONCE) for bucket in self.of(topic))])

    def follow(self, shares: Mapping[str, Share]) -> bool:
        """Follow the newest plan's shares. True if turns are void now: whoever waits has to ask again.

        A share that shrinks does so at once. One that grows waits for GROW_AFTER, until other tasks have read that
        theirs shrink: the sum stays below the throttle. A new throttle, or one that is lifted, waits for nothing.
        """
        now = self._clock.monotonic()
        known = self._shares
        if shares is not known:
            self._shares, self._since, self._settled = shares, now, False
        if self._settled:
            return False
        may_grow = known is None or now - self._since >= GROW_AFTER
        self._settled = True
        after = {}
        for name, share in shares.items():
            if share.rate > 0:
                began = now if known is None or name not in known else self._since + GROW_AFTER
                after[name] = self._bucket(name, share, began, may_grow)
        changed = after != self._by_name
        if changed:
            self._by_name = after
            self._of_others = (after[OF_FLOW],) if OF_FLOW in after else ()
            own = {name: bucket for name, bucket in after.items() if name != OF_FLOW}
            self._of_topic = {name: (bucket, *self._of_others) for name, bucket in own.items()}
        return changed

    def _bucket(self, name: str, share: Share, began: float, may_grow: bool) -> Bucket:
        before = self._by_name.get(name)
        whose = "flow's" if name == OF_FLOW else "topic's"
        reason = f"slowed down by the {whose} throttle of {byte_rate(share.limit)}"
        if before is None:
            return Bucket(share, reason, self._clock, began)
        if before.share == share:
            return before
        if share.rate > before.share.rate and not may_grow:
            self._settled = False
            return before
        return before.follow(share, reason)


class Turns:
    """The turns of one partition. Only its step uses them."""

    def __init__(self, clock: Clock) -> None:
        self.until = 0.0  # monotonic: when it may copy
        self.reason = ""  # why it waits until then, for people
        self._clock = clock
        self._held: list[Turn] = []
        self._granted: list[Turn] = []
        self._asked: float | None = None  # monotonic: when it began to wait

    @property
    def waiting(self) -> bool:
        """True while the partition may not copy yet."""
        return self.until > 0 and self.until > self._clock.monotonic()

    def ask(self, buckets: tuple[Bucket, ...], wanted: int) -> bool:
        """Ask each bucket for a turn to copy the `wanted` bytes that wait. False if none may be copied before `until`.

        It asks the next bucket only once the turn of the bucket before has come. So no partition reserves a part of the
        flow's rate while it still waits for its topic's turn.
        """
        now = self._clock.monotonic()
        fits = [turn.bucket is bucket for turn, bucket in zip(self._held, buckets, strict=False)]
        del self._held[[*fits, False].index(False) :]
        for bucket in buckets[len(self._held) :]:
            if self._held and self._held[-1].at > now:
                break
            self._held.append(bucket.turn(wanted))
            wanted = min(wanted, self._held[-1].max_bytes)
        last = self._held[-1]
        if last.at > now:
            self.until, self.reason = last.at, last.bucket.reason
            self._asked = now if self._asked is None else self._asked
        return last.at <= now

    def take(self, buckets: tuple[Bucket, ...], wanted: int) -> int:
        """How many of the `wanted` bytes that wait may be copied now; 0: none before `until`."""
        if not self.ask(buckets, wanted):
            return 0
        self._granted, self._held = self._held, []
        return min(turn.max_bytes for turn in self._granted)

    def waited(self) -> float:
        """Seconds that the partition has waited since the last call. Time after its turn had come does not count."""
        asked, self._asked = self._asked, None
        return 0.0 if asked is None else min(self._clock.monotonic(), self.until) - asked

    def copied(self, size: int) -> None:
        """Count `size` bytes that were copied in the turns. Without this call, what was reserved counts."""
        for turn in self._granted:
            turn.bucket.copied(turn, size)
        self._granted = []

    def forget(self) -> None:
        """The turns are void, because the throttle has changed."""
        self._held, self.until = [], 0.0
