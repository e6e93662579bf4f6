"""What an error of librdkafka means: a cluster that is away, a refusal that lasts, or a producer that was fenced."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError

from mirror.kafka.credentials import properties_of
from mirror.kafka.librdkafka_log import without_elapsed_time
from mirror.settings import Cluster

AWAY = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._AUTHENTICATION,  # a login that was refused: another password may come, or a new token
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
    }
)
# What lasts until a person changes a permission, a policy or a setting.
LASTING = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
    }
)
# The errors of a producer that was fenced: another producer has opened its transactional id since. A broker reports
# them, or librdkafka for it.
FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_SECRET = re.compile("password|passphrase|secret")  # in the name of a property


def is_away(error: KafkaError) -> bool:
    """True if the error means that a cluster does not answer now, and not that it refuses."""
    return error.code() in AWAY or error.retriable()


def is_lasting(error: KafkaError) -> bool:
    """True if the refusal lasts until a person changes a permission, a policy or a setting of the cluster."""
    return error.code() in LASTING


def connection_reason(cluster: Cluster, error: KafkaError) -> str:
    """Why a connection has failed, without the time that it took, so that equal reasons are equal texts.

    A broker's own words may repeat the password, or be no UTF-8: then librdkafka's words for the error stand there.
    """
    librdkafkas = str(KafkaError(error.code()).str())
    try:
        reason = without_elapsed_time(error.str())
    except UnicodeDecodeError:
        return librdkafkas
    known = (cluster.properties, properties_of(cluster), cluster.consumer, cluster.producer)
    secrets = {value for each in known for name, value in each.items() if value and _SECRET.search(name)}
    return librdkafkas if any(each in reason for each in secrets) else reason
