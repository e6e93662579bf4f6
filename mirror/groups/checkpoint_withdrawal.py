"""Withdraws checkpoints that have become wrong: their remote topic was deleted, or another topic has its name.

MirrorMaker's Java client (4.2) can't read a record without a value: it ends with a NullPointerException. So a
checkpoint is not deleted. Instead another one takes its place, with which the group passes over no record.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from mirror.groups.checkpoints import Checkpoint
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition

log = logging.getLogger(__name__)

GONE = ""  # stands for the id of a topic that does not exist


@dataclass(frozen=True, slots=True)
class Standing:
    """A checkpoint that stands on the topic."""

    value: bytes
    remote_id: str  # of the remote topic for which it was written; "": not known


class Withdrawal:
    """Looks at the remote topics of checkpoints once in each group round. It believes what two rounds have seen."""

    def __init__(self, target: ClusterAdmin, flow: str) -> None:
        self._target = target
        self._flow = flow
        self._before: Mapping[str, str] = {}  # the remote topics' ids in the last round, or GONE

    def judge(self, standing: Mapping[bytes, Standing]) -> dict[bytes, Standing]:
        """What has to stand instead of these checkpoints, which no group round has translated anew.

        A checkpoint whose topic is not known was written by others, or by an earlier flow leader. It is wrong if it is
        after the end of the remote log. If it is not, it counts as one of the topic as it is now. Raises ClusterAway.
        """
        decoded = {key: Checkpoint.decode(key, each.value) for key, each in standing.items()}
        ids = self._ids({each.remote for each in decoded.values()})
        gone = {key: each for key, each in decoded.items() if ids.get(each.remote) == GONE and each.downstream}
        others = {
            key: each
            for key, each in decoded.items()
            if ids.get(each.remote, GONE) not in (GONE, standing[key].remote_id)
        }
        instead = {key: Standing(replace(each, downstream=0).value(), "") for key, each in gone.items()}
        instead |= self._of_others(standing, others, ids)
        counts = Counter(decoded[key].remote for key, each in instead.items() if each.value != standing[key].value)
        for remote, count in sorted(counts.items()):
            where = {"flow": self._flow, "topic": remote, "checkpoints": count}
            log.warning("checkpoints withdrawn: the remote topic was deleted, or created again", extra=where)
        return instead

    def _of_others(
        self, standing: Mapping[bytes, Standing], found: Mapping[bytes, Checkpoint], ids: Mapping[str, str]
    ) -> Iterator[tuple[bytes, Standing]]:
        """Those of topics that exist, but are not, or perhaps not, the ones of the checkpoints."""
        places = {Partition(each.remote, each.partition) for each in found.values()}
        starts = self._target.offsets(dict.fromkeys(places, OffsetSpec.earliest()), stable=False) if places else {}
        ends = self._target.offsets(dict.fromkeys(places, OffsetSpec.latest()), stable=False) if places else {}
        for key, each in found.items():
            at = Partition(each.remote, each.partition)
            if at not in starts or at not in ends:  # it is offline, or the new topic does not have it
                continue
            is_wrong = bool(standing[key].remote_id) or each.downstream > ends[at]
            value = replace(each, downstream=starts[at]).value() if is_wrong else standing[key].value
            yield key, Standing(value, ids[each.remote])

    def _ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of the topics, or GONE, as far as this round and the last one have found the same."""
        now, refused = self._target.ids_now(topics)
        now |= {name: GONE for name, error in refused.items() if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART}
        before, self._before = self._before, now
        return {name: each for name, each in now.items() if before.get(name) == each}
