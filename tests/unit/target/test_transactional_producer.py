"""What an error between begin and commit means."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.errors import OutcomeUnknown, TransactionAborted
from mirror.target.transactional_producer import Disturbances, TransactionalProducer


class NoTransaction:
    """librdkafka, and a coordinator that ends no transaction, because no partition could be added to it."""

    def abort_transaction(self, _: float) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE))


class Aborting:
    """librdkafka that aborts."""

    def abort_transaction(self, _: float) -> None:
        return None


def judged(client: Any, code: int) -> Any:
    producer = TransactionalProducer.__new__(TransactionalProducer)
    producer._producer, producer._timeout = client, 1.0
    return producer.failed(KafkaError(code, "not added", txn_requires_abort=True))


@pytest.mark.parametrize(
    ("code", "blocked"), [(KafkaError.TOPIC_AUTHORIZATION_FAILED, True), (KafkaError.UNKNOWN_TOPIC_OR_PART, False)]
)
def test_the_first_error_says_whether_a_person_has_to_act(code: int, blocked: bool) -> None:
    """That holds even if the abort fails too: a permission that was revoked does not come back by itself."""
    error = judged(NoTransaction(), code)
    assert type(error) is OutcomeUnknown and error.blocked is blocked and "the abort failed too" in str(error)
    error = judged(Aborting(), code)
    assert type(error) is TransactionAborted and error.blocked is blocked


def test_what_disturbs_a_producer() -> None:
    disturbances = Disturbances()
    disturbances.log(logging.INFO, "%s %s: %s", "METADATA", "rdkafka#producer-1", "a topic has changed")
    assert not disturbances.any
    disturbances.log(logging.INFO, "%s %s: %s", "FAIL", "rdkafka#producer-1", "Disconnected")
    assert disturbances.any
    disturbances = Disturbances()
    disturbances.note(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert disturbances.any
