"""Looks whether a cluster answers this service, whether it still accepts the login, and when certificates expire."""

from __future__ import annotations

import logging
import threading
import time

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mirror.errors import ClusterAway
from mirror.kafka import clients
from mirror.kafka.certificates import expiries
from mirror.kafka.client_errors import connection_reason, is_away
from mirror.kafka.credentials import FileChanges
from mirror.kafka.renewed import end_later
from mirror.logs import OnChange
from mirror.settings import Cluster
from mirror.status.cluster_status import ClusterStatus
from mirror.text import BUG

log = logging.getLogger(__name__)

LOOK_INTERVAL = 5.0  # seconds between two looks
# Seconds after which a new client logs in: open connections do not show that a password or a certificate has ceased to
# be valid.
LOGIN_INTERVAL = 60.0
TIMEOUT = 5.0  # seconds for an answer
BUG_DELAY = 10.0  # seconds between an unexpected error and the next try
AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})


class ClusterWatch(threading.Thread):
    """Keeps the status of one cluster until `stopping` is set. Its requests need no permission."""

    def __init__(self, cluster: Cluster, stopping: threading.Event) -> None:
        super().__init__(daemon=True, name=f"watch {cluster.alias}")
        self.status = ClusterStatus(cluster.alias)
        self._cluster = cluster
        self._stopping = stopping
        self._error: KafkaError | None = None  # the last one of the present client's connections
        self._refused = OnChange()
        self._topic = ""  # one that we may see

    def run(self) -> None:
        """Look again and again, also after an unexpected error."""
        while not self._stopping.is_set():
            try:
                self._watch()
            except Exception:
                log.exception(BUG, extra={"cluster": self._cluster.alias})
                self._stopping.wait(BUG_DELAY)

    def _watch(self) -> None:
        """Look with one client for LOGIN_INTERVAL. It logs in once for each broker, so then another client has to."""
        self._error = None
        self.status.certificates = expiries(self._cluster)
        changes = FileChanges(self._cluster)
        client = self._client()
        if client is None:
            self._stopping.wait(LOOK_INTERVAL)
            return
        began, errors = time.monotonic(), self.status.authentication_errors
        while not self._stopping.is_set() and time.monotonic() - began < LOGIN_INTERVAL and not changes.any():
            self._look(client)
            if self.status.reachable and self.status.authentication_errors == errors:
                self._refused.clear()
            self._stopping.wait(LOOK_INTERVAL)
        end_later(client)

    def _client(self) -> AdminClient | None:
        """A new client; None if there is no token for its login, or a certificate in a file can't be used."""
        try:
            # If packets get lost, only a new connection shows in time that they arrive again: see mirror/timing.py.
            return clients.admin(self._cluster, self._on_error, patience=2 * TIMEOUT)
        except (ClusterAway, KafkaException) as error:
            reason = str(error) if isinstance(error, ClusterAway) else error.args[0].str()
        self.status.reason, self.status.reachable = reason, False
        self._count_refusal(KafkaError._AUTHENTICATION, reason)
        return None

    def _look(self, client: AdminClient) -> None:
        error = self._failure(client)
        client.poll(0)  # calls back
        reason = error and (self._error or error)
        if error is None:
            self._error = None  # what was wrong with one broker before is no reason for a later silence
        self.status.reason = connection_reason(self._cluster, reason) if reason else ""
        self.status.reachable = reason is None

    def _failure(self, client: AdminClient) -> KafkaError | None:
        """Why no broker answers; None if one does, even with a refusal."""
        try:
            self._ask(client)
        except KafkaException as error:
            why: KafkaError = error.args[0]
            away = is_away(why) or why.code() < 0
            self._topic = self._topic if away else ""  # the topic is gone, or hidden from us
            return why if away else None
        except TimeoutError:  # librdkafka can lose a request
            return KafkaError(KafkaError._TIMED_OUT)
        return None

    def _ask(self, client: AdminClient) -> None:
        """Ask for one topic that we may see, since a listing of all can be large.

        It is not `describe_cluster`: a broker that has just started may answer that there are no brokers, and without
        any topic in that answer librdkafka (2.16) ends the process by an assertion.
        """
        if self._topic:
            (asked,) = client.describe_topics(TopicCollection([self._topic]), request_timeout=TIMEOUT).values()
            asked.result(2 * TIMEOUT)
        else:
            self._topic = min(client.list_topics(timeout=TIMEOUT).topics, default="")

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._error = error
        if error.code() in AUTHENTICATION:
            self._count_refusal(error.code(), connection_reason(self._cluster, error))

    def _count_refusal(self, code: int, reason: str) -> None:
        self.status.authentication_errors += 1
        if self._refused.is_new(code):
            log.warning("a login to the cluster failed", extra={"cluster": self._cluster.alias, "reason": reason})
