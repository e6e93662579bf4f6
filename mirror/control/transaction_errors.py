"""What it means for a flow that a transaction of its leader has failed."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from mirror.errors import ClusterAway, FlowError
from mirror.kafka.client_errors import FENCED, is_lasting
from mirror.kafka.clients import INTERNAL_MAX
from mirror.kafka.topic_creation import AHEAD, ANY_TIME
from mirror.settings import Flow


def judged(flow: Flow, error: KafkaException) -> ClusterAway | FlowError:
    """The error to raise instead."""
    cause, alias = error.args[0], flow.target.alias
    if cause.code() in FENCED:
        # Being fenced is not decisive: the other service may have died before it published a plan. The next
        # `check_still_leading` decides.
        return FlowError(f"flow {flow.name}: another service has fenced this flow leader")
    if cause.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return FlowError(
            f"flow {flow.name}: transaction_timeout ({flow.transaction_timeout:g} s) is longer than "
            f"transaction.max.timeout.ms of the brokers of {alias}: lower it, or raise theirs",
            blocked=True,
        )
    if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:  # the topic was made, or altered, by somebody else
        return FlowError(
            f"flow {flow.name}: {alias} takes no plan of this size: set max.message.bytes={INTERNAL_MAX} on "
            f"{flow.control_topic}",
            blocked=True,
        )
    if cause.code() == KafkaError.INVALID_TIMESTAMP:  # the topic was made before mirror set AHEAD, or by somebody else
        return FlowError(
            f"flow {flow.name}: by the clock of {alias}, a plan written now is too far ahead: set this host's clock "
            f"and the brokers' by NTP, or set {AHEAD}={ANY_TIME[AHEAD]} on {flow.control_topic}",
            blocked=True,
        )
    if is_lasting(cause):
        return FlowError(f"flow {flow.name}: {alias} does not let mirror lead the flow: {cause.str()}", blocked=True)
    return ClusterAway(alias, cause.str())
