"""Recognizes positions of mirror's flows among the offsets of groups: they are offsets of another cluster.

A chain of flows, or a flow back, finds them on its source: `mirror-<source>-<target>` is a group like any other there.
"""

from __future__ import annotations

from mirror import decode
from mirror.target.position_metadata import METADATA_MAX, without_end

POSITIONS = "positions of a mirror flow: they are offsets of another cluster"
OWN_GROUP = "it has the name of the group in which this flow keeps its positions"
POSITIONS_THERE = "the group of this name on the target has positions of a mirror flow"


def is_position(metadata: str) -> bool:
    """True if a mirror, of whichever version, has committed an offset with this metadata as its position.

    So have `mirror adopt`, and `mirror hand-back` with an empty id.
    """
    try:
        decode.fields(decode.parsed(without_end(metadata), METADATA_MAX), {"topic_id": decode.name})
    except decode.DecodeError:
        return False
    return True
