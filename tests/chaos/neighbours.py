"""Flows of configurations that don't know each other, and don't go together."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping

from tests.chaos.arena import Arena
from tests.chaos.matrix import row
from tests.chaos.own_recorders import OwnServiceRecorder
from tests.chaos.recorder import Recorder
from tests.harness import configuration, topics
from tests.harness.configuration import Settings
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.service import FLOW_BLOCKED, PLANNED, Event, Service
from tests.harness.waiting import TooLate

SILENCE = 40.0  # seconds that the first one may be away
SAME_NAMES: Mapping[str, str] = {"replication_policy": "identity", "append_to_existing": "true"}


class SameNames(Pair):
    """Remote topics have the names of the source's."""

    def remote(self, topic: str) -> str:
        """The name of a topic on the target."""
        return topic


class NeighboursRecorder(OwnServiceRecorder):
    """The recorder of a service that copies topics under their own names, so that what goes back goes round."""

    def __init__(self, arena: Arena) -> None:
        self.run = f"n{uuid.uuid4().hex[:6]}"
        pair = SameNames(arena.pair.source, arena.pair.target, f"east-{self.run}", f"{self.run}.round-")
        super().__init__(arena, pair, replication_policy="identity")

    @classmethod
    def at(cls, arena: Arena) -> NeighboursRecorder:
        """A recorder in this place."""
        return cls(arena)


def _circle(arena: Arena, recorder: NeighboursRecorder) -> Settings:
    """What is copied is copied back."""
    source, target = arena.source_proxy.bootstrap, arena.target_proxy.bootstrap
    aliases = {"alias": f"west-{recorder.run}", "target_alias": f"home-{recorder.run}"}
    return configuration.one_flow(target, source, [recorder.topic], **aliases, flow=SAME_NAMES)


def _same_topic(arena: Arena, recorder: NeighboursRecorder) -> Settings:
    """Another topic of the source has the same remote topic, for the alias is the beginning of the name."""
    source, target = arena.source_proxy.bootstrap, arena.target_proxy.bootstrap
    other = recorder.topic.removeprefix(f"{recorder.run}.")
    if not topics.partitions(arena.pair.source, other):
        topics.create(arena.pair.source, other, len(recorder.senders))
        arena.pair.produce(other, *(Made(None, b"foreign %d" % number) for number in range(20)))
    return configuration.one_flow(source, target, [other], alias=recorder.run, flow={"append_to_existing": "true"})


def _twice(arena: Arena, recorder: NeighboursRecorder) -> Settings:
    """The same topic under another alias of the cluster."""
    source, target = arena.source_proxy.bootstrap, arena.target_proxy.bootstrap
    alias = f"twin-{recorder.run}"
    recorder.forbid(arena.pair.target, f"{alias}.{recorder.topic}")
    return configuration.one_flow(source, target, [recorder.topic], alias=alias)


@row(
    "26 a second configuration that conflicts with the first; one of the two is killed, and comes back",
    everywhere=False,
    recorder=NeighboursRecorder,
    together=8,
)
def neighbour(arena: Arena, rng: random.Random, recorder: Recorder) -> None:
    assert isinstance(recorder, NeighboursRecorder)
    make, why = rng.choice(((_circle, "copied in a cycle"), (_same_topic, "both write to"), (_twice, "both copy")))
    settings = make(arena, recorder)
    print(f"   {why}", flush=True)
    second = arena.start_beside(settings)
    _await_refused(second, why, recorder)
    if rng.random() < 0.3:
        arena.service.kill()
        recorder.start_service(wait=False)
        # After a minute of silence it is the second one's turn, and on a busy machine a start may take longer.
        is_back = _plans_within(arena.service, SILENCE)
    else:
        is_back = False
    if not is_back:
        second.kill()
        arena.service.await_plan()
        second = arena.start_beside(settings)
        _await_refused(second, why, recorder)
    recorder.heals()
    recorder.await_progress()
    assert second.terminate() == 0, second.tail()
    if second.find(PLANNED):
        recorder.complaints.append(f"it was not refused all the time, though {why}")


def _plans_within(service: Service, seconds: float) -> bool:
    try:
        service.await_plan(seconds)
        return True
    except TooLate:
        return False


def _await_refused(service: Service, why: str, recorder: Recorder) -> None:
    """Should it copy all the same, what comes of that is judged."""

    def told() -> list[Event]:
        return [event for event in service.find(FLOW_BLOCKED) if "conflicts with" in event["reason"]]

    service.wait_for("it is refused, or copies", lambda: told() or service.find(PLANNED))
    reasons = [event["reason"] for event in told()]
    if not reasons or why not in reasons[0] or "stop one of the two" not in reasons[0]:
        recorder.complaints.append(f"what it says is not that {why}: {reasons}")
