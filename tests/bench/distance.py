"""Clusters that are far away, and what is copied over the link to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mirror.demo.brokers import LocalCluster, start_together
from tests.bench.catch_up import Load


@dataclass(frozen=True, slots=True)
class Distance:
    """A link, and a load that takes a minute or two over it. By default the target is at its far end."""

    round_trip: float  # seconds
    load: Load
    loss: float = 0.0  # share of the packets, each way
    source: bool = False  # the source is far away
    compared: bool = True  # with MirrorMaker, too
    autotuned: bool = False  # the brokers leave the size of their sockets' buffers to the system

    @property
    def told(self) -> Mapping[str, object]:
        """What a result says of it."""
        far = "source" if self.source else "target"
        return {"delay_ms": 1000 * self.round_trip, "loss": self.loss, "far": far, "autotuned": self.autotuned}


# By default brokers limit what is on the way on a connection to some 100 KiB (socket.receive.buffer.bytes and
# socket.send.buffer.bytes): 1.5 MB/s over 80 ms. With a loss of 1 % it is 0.2 MB/s. So one partition has less to copy.
DISTANCES: Sequence[Distance] = (
    Distance(0.02, Load(1_000_000, partitions=1)),
    Distance(0.02, Load(3_000_000, partitions=32)),
    Distance(0.08, Load(300_000, partitions=1)),
    Distance(0.08, Load(2_000_000, partitions=32)),
    Distance(0.08, Load(100_000, partitions=1), loss=0.01),
    Distance(0.08, Load(500_000, partitions=32), loss=0.01),
    Distance(0.08, Load(2_000_000, partitions=32), source=True),
    Distance(0.15, Load(2_000_000, partitions=32), compared=False),
)

# With brokers whose buffers grow as the system sees fit (-1), as is best for clusters that are far away.
AUTOTUNED: Sequence[Distance] = tuple(
    Distance(round_trip, Load(3_000_000, partitions=partitions), source=source, autotuned=True)
    for round_trip, partitions, source in ((0.02, 1, False), (0.08, 1, False), (0.08, 32, False), (0.08, 32, True))
)


@contextmanager
def autotuned(*clusters: LocalCluster) -> Iterator[None]:
    """Start brokers again, which then leave the size of their sockets' buffers to the system; at the end once more."""
    buffers = {f"socket.{way}.buffer.bytes": -1 for way in ("send", "receive")}
    brokers = [broker for cluster in clusters for broker in cluster.brokers]
    before = [dict(broker.properties) for broker in brokers]

    def start(every: Sequence[dict[str, object]]) -> None:
        for cluster in clusters:
            cluster.stop()
        for broker, properties in zip(brokers, every, strict=True):
            broker.properties = properties
        start_together(*clusters)

    start([{**properties, **buffers} for properties in before])
    try:
        yield
    finally:
        start(before)
