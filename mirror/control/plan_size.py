"""How large a plan or an announcement may become: it is one record on the control topic."""

from __future__ import annotations

import logging

from mirror.control.plan import Plan
from mirror.errors import FlowError
from mirror.kafka.clients import INTERNAL_MAX
from mirror.settings import Flow

log = logging.getLogger(__name__)

WARN_FROM = INTERNAL_MAX * 3 // 4  # bytes
KEY_MAX = 100  # bytes; more than the keys of plan and announcement have. They count as part of the record
REMEDY = "delete remote topics that nobody needs any more, or give some of its topics to a flow from another alias"


def as_record(flow: Flow, plan: Plan) -> bytes:
    """The record's value. Logs a warning from WARN_FROM on, and raises FlowError if no control topic takes it.

    librdkafka counts the bytes before they are compressed.
    """
    value = plan.encode()
    if len(value) < WARN_FROM:
        return value
    topics = f"{len(plan.topics):,} topics that are copied, and {len(plan.retired):,} that were and still exist"
    if len(value) + KEY_MAX > INTERNAL_MAX:
        said = f"its plan has {len(value):,} bytes, for {topics}, and can't have more than {INTERNAL_MAX:,}"
        raise FlowError(f"flow {flow.name}: {said}: {REMEDY}", blocked=True)
    where = {"flow": flow.name, "bytes": len(value), "most": INTERNAL_MAX, "topics": topics, "remedy": REMEDY}
    log.warning("plan is nearly too large for a record", extra=where)
    return value
