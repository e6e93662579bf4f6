"""What the samples say: each field of each format has a value other than its default in one of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mirror.control.control_topics import Claim
from mirror.control.decisions import Decision, Incident
from mirror.control.orders import Order, Scope
from mirror.control.plan import Plan
from mirror.control.reports import LATENCY_BUCKETS, LOST, SIZE_BUCKETS, TRANSACTION_OUTCOMES, Counters, Report
from mirror.control.signs import Sign
from mirror.control.task_settings import TaskSettings
from mirror.control.verification import Verification
from mirror.groups.checkpoints import Checkpoint
from mirror.groups.heartbeats import Heartbeat
from mirror.model import MapEnd, Partition, Position, Topic
from mirror.service.canary_records import CanaryRecord
from mirror.settings import TopicSettings
from mirror.target.offset_map import Copied, Entry
from mirror.target.offset_syncs import OffsetSync

HERE, THERE = "Vh3AbnG7QDmS0w1rJx5q8A", "k9dLx2TtRk2o1Y7cQpFz3g"  # ids of topics, as Kafka makes them
PRIMARY, BACKUP = "4L6g3nShT-eMCtK--X86sw", "Xq0bVtJbTnmVtYk1l4mFZQ"  # of clusters
LEADER, TASK = "0f6f7c1e52e54e5e9a4fd3b2a1c0d9e8", "5d3c2b1a09f8e7d6c5b4a39281706f5e"

SETTINGS = TaskSettings(
    transaction_linger_max=0.01,
    producer_idle_timeout=600.0,
    open_transaction_warn_after=300.0,
    append_to_existing=True,
    on_data_loss="skip",
    on_poison_record="dead_letter",
    topic_settings={
        "orders": TopicSettings("all.orders", "latest", "fail", "skip", 1_000_000),
        "events": TopicSettings(None, 1_790_000_000_000, None, None, None),
    },
    log_level="info",
    throttle=50_000_000,
    data_path="auto",
)
PLAN = Plan(
    service_id=LEADER,
    generation=7,
    topics={
        "orders": Topic("all.orders", HERE, 3, 2, THERE, True, True, 10_485_760),
        "events": Topic("primary.events", HERE, 1, 0),
    },
    slices=(
        frozenset({Partition("orders", 0), Partition("orders", 2)}),
        frozenset({Partition("orders", 1), Partition("events", 0)}),
        frozenset(),
    ),
    stop=True,
    restarts=4,
    retired={"old": Topic("primary.old", HERE, 2, 2, THERE)},
    renew_interval=60_480.0,
    clusters=(PRIMARY, BACKUP),
    origins={"all.orders": (PRIMARY,), "primary.events": (PRIMARY, BACKUP)},
    task_settings=SETTINGS,
    throttle_parts={"": (0.5, 0.25, 0.25), "orders": (0.75, 0.25, 0.0)},
)
PLANS = (
    PLAN,
    replace(
        PLAN,
        stop=False,
        active_active=True,
        unmarked={"primary.events": THERE},
        group="mirror-primary-backup",
        configs_from=(PRIMARY,),
    ),
    Plan(LEADER, 1, {}, ()),
)
INTENTS = (Plan(LEADER, 8, PLAN.topics, (), clusters=PLAN.clusters, origins=PLAN.origins),)
CLAIMS = (Claim(0, TASK, LEADER, "1b2c"), Claim(12, TASK))
ORDERS = (
    (Scope(), Order(True)),
    (Scope("orders"), Order(False)),
    (Scope("orders", 3), Order(True)),
)
DECISIONS = (
    Decision(Partition("orders", 3), Incident("truncated", HERE, "", 41, 2), "skip"),
    Decision(Partition("orders", 0), Incident("remote_topic", HERE, THERE), "start"),
    Decision(Partition("orders", 1), Incident("position_foreign", HERE, THERE, 7), "at", 9),
    Decision(
        Partition("a.b_c-d", 2_147_483_647),
        Incident("unknown_records", HERE, THERE, group="mirror"),
        "continue",
        request=TASK,
    ),
)
SIGNS = (Sign(LEADER, "mirror-5d8f-x2k7q"), Sign(LEADER, "mirror-5d8f-x2k7q", waits=True))
VERIFICATIONS = (Verification(1_790_000_000.5, False, 12_345_678_901, 3, 7),)

COUNTERS = Counters(
    records=1_000_000_000_000,
    bytes=2**52,
    transactions={name: 100 + number for number, name in enumerate(TRANSACTION_OUTCOMES)},
    fenced=1,
    retries=2,
    throttled=1.25,
    dropped=3,
    foreign=4,
    left_out=5,
    lost={name: 10 + number for number, name in enumerate(LOST)},
    latency_buckets=list(range(len(LATENCY_BUCKETS) + 1)),
    latency_sum=1234.5,
    age_sum=1230.25,
    duration_buckets=list(range(100, 100 + len(LATENCY_BUCKETS) + 1)),
    duration_sum=99.5,
    size_buckets=list(range(len(SIZE_BUCKETS) + 1)),
)
REPORT = Report(
    service_id=LEADER,
    incarnation=TASK,
    generation=7,
    partition=Partition("orders", 3),
    remote="all.orders",
    state="running",
    reason="",
    position=41,
    lag=17,
    behind_since=1_790_000_000.25,
    last_commit=1_790_000_001.5,
    counters=COUNTERS,
    topic_id=HERE,
    remote_id=THERE,
    resets=2,
    throttled_by=("source", "target"),
    throttled=True,
    stuck_since=1_789_999_000.0,
    held_back=12,
    next_timestamp=1_790_000_000.125,
    foreign=(5, 6),
    group="mirror-primary-backup",
    path="batches",
    path_since=1_789_998_000.5,
    path_reason="compacted",
)
REPORTS = (
    REPORT,
    replace(REPORT, state="blocked", reason="lost: décidez", incident=Incident("deleted", HERE, THERE, 41, 2)),
    replace(
        REPORT, state="blocked", incident=Incident("unknown_records", HERE, THERE, group="mirror"), unfollowed=TASK
    ),
    Report(LEADER, TASK, 1, Partition("t", 0), "primary.t", "starting", "", -1, -1, -1.0, 0.0, Counters()),
)
POSITIONS = (
    Position(0, HERE),
    Position(41, HERE, 5, 5, THERE, 0, MapEnd(40, 7)),
    Position(41, HERE, 5, 5, THERE, 0, MapEnd(40, 7, 5, 60)),
    Position(2**62, HERE, -1, 6, THERE, 3, MapEnd()),
    Position(41, HERE, 5, -1, THERE).handed_back(THERE),
)
COPIED = Copied("orders", 3, HERE, THERE)
MAP_ENTRIES = (
    (COPIED, Entry(1_000, 500, (7, 2, 3), MapEnd(450, 50), 1)),
    (COPIED, Entry(0, 0, (1,), MapEnd())),
    (COPIED, Entry(2**40, 2**39, (1_000_000, 1, 1))),
)
OFFSET_SYNCS = (OffsetSync("orders", 3, 1_000, 500), OffsetSync("a.b_c-d", 0, 0, 2**40))
CHECKPOINTS = (
    Checkpoint("billing", "primary.orders", 3, 1_000, 500, ""),
    Checkpoint("g\u00e9", "t", 0, 1, 1, "m\u00e9"),
)
HEARTBEATS = (Heartbeat("primary", "backup", 1_790_000_000_123),)
CONNECT_OFFSETS = (("MirrorSourceConnector", "primary", Partition("orders", 3), 42),)
CANARIES = (CanaryRecord(LEADER, 12),)
ROUTES = (("orders", 3, (PRIMARY,)), ("orders", 0, (PRIMARY, BACKUP)))
ALIASES = (("primary", "backup"),)


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that the target refuses, as `dead_letter` takes it, and as its reader gets it.

    `value_bytes` is the size of a record that was too large to be kept, else None.
    """

    partition: Partition
    at: int  # offset
    written: int  # milliseconds since the Unix epoch
    reason: str
    kept_key: bytes | None
    kept_value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    value_bytes: int | None

    def __len__(self) -> int:
        return self.value_bytes or 0

    def offset(self) -> int:
        """The offset on the source."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """The kind of timestamp, and milliseconds since the Unix epoch."""
        return 1, self.written

    def key(self) -> bytes | None:
        """The key; None if there is none."""
        return self.kept_key

    def value(self) -> bytes | None:
        """The value; None if there is none, or if it was not kept."""
        return self.kept_value


DEAD_LETTERS = (
    Letter(Partition("orders", 3), 41, 1_790_000_000_123, "too large", b"k", None, [("h", b"v"), ("n", None)], None),
    Letter(Partition("orders", 3), 42, 1_790_000_000_123, "too large", None, None, [("h", b"v")], 2_000_000),
)


@contextmanager
def temporary_file(text: str) -> Iterator[str]:
    """The path of a file with this text."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        yield file.name
