"""A user with a password that brokers keep themselves (SCRAM), so that it can be taken away while they run."""

from __future__ import annotations

import contextlib

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.harness import topics
from tests.harness.waiting import PATIENCE, until

MECHANISM = "SCRAM-SHA-256"
PASSWORD = "of-no-worth"
_MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


def properties(user: str) -> dict[str, str]:
    """What a client needs."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": MECHANISM,
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def allow(bootstrap: str, user: str, password: str = PASSWORD, mechanism: str = MECHANISM) -> None:
    """Give the user a password, or another one."""
    info = ScramCredentialInfo(_MECHANISMS[mechanism], 4096)
    _alter(bootstrap, UserScramCredentialUpsertion(user, info, password.encode()))
    until("the credentials", lambda: _is_known(bootstrap, user))


def expire(bootstrap: str, user: str) -> None:
    """Take it away."""
    _alter(bootstrap, UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))
    until("no credentials", lambda: not _is_known(bootstrap, user))


def _alter(bootstrap: str, change: UserScramCredentialAlteration) -> None:
    for future in topics.admin(bootstrap).alter_user_scram_credentials([change]).values():
        future.result(PATIENCE)


def _is_known(bootstrap: str, user: str) -> bool:
    with contextlib.suppress(KafkaException):
        described = topics.admin(bootstrap).describe_user_scram_credentials([user])
        return bool(described[user].result(PATIENCE).scram_credential_infos)
    return False
