"""When a client is replaced."""

from __future__ import annotations

from mirror.kafka.renewed import RENEW_AFTER, Renewed
from mirror.settings import Cluster


class Client:
    """Stands for any client."""


def test_a_client_that_gets_no_answer_is_replaced() -> None:
    now = 0.0
    renewed = Renewed(Cluster("a", {}, {}, {}), Client, lambda: now)
    first = renewed.client
    renewed.note(True, "ends")
    now = RENEW_AFTER - 1
    renewed.note(True, "ends")
    assert renewed.client is first, "not yet"
    renewed.note(False, "ends")
    now = RENEW_AFTER + 1
    renewed.note(True, "ends")
    renewed.note(True, "starts")
    assert renewed.client is first, "an answer came between"
    now = 2 * RENEW_AFTER
    renewed.note(False, "ends")
    assert renewed.client is first
    now = 2 * RENEW_AFTER + 1
    second = renewed.client
    assert second is not first, "answers to other questions prove nothing"
    renewed.note(True, "starts")
    assert renewed.client is second, "the new one gets its time, too"
