"""Two long-lived clusters with proxies before them, and the service between them: the place for many rounds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from mirror.demo.brokers import Broker, LocalCluster, start_together
from mirror.text import BUG
from tests.chaos.disk import Disk
from tests.failpoints.arm import Failpoints
from tests.harness import credentials
from tests.harness.configuration import Settings
from tests.harness.pair import Pair
from tests.harness.proxy import Proxy
from tests.harness.service import Event, Service

ALIAS = "chaos"
MakeSettings = Callable[..., Settings]  # takes a pair, keys of the flow, and keys at the top of the file
TRANSACTION_TIMEOUT = 5  # seconds
STAY = 1.0  # seconds that a partition is copied by records, before it is looked whether batches fit again
TRANSFORMS = Path(__file__).parents[1] / "transforms"  # the folder of the transform's module
REAUTHENTICATE = 5_000  # ms after which a connection has to show its credentials again
USER = "mirror"
PROPERTIES = {
    # The judge and the brokers themselves are super users. The service may do everything until somebody forbids it.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": 200,
    # Or a coordinator has more and more to load, and Kafka 4.2.0 may lose one that is elected again meanwhile. But not
    # what is younger than a round: after each one the judge reads where transactions ended (Recorder.keep_commits).
    "offsets.topic.segment.bytes": 2**20,
    "log.cleaner.min.compaction.lag.ms": 600_000,
    "log.cleaner.min.cleanable.ratio": 0.1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,  # or most hangs would end before it
}


class Arena:
    """A context manager. The service reaches both clusters through proxies and with a password, the judge directly."""

    def __init__(
        self,
        directory: Path,
        target_brokers: int = 3,
        make: MakeSettings | None = None,
        transform: str | None = None,
        batches: bool = False,
    ) -> None:
        """`make` makes the configuration of a flow in both directions, under the same names of topics.

        `transform` is the dotted path of what the services apply to all records. `batches` has them copy whole record
        batches where that can be done.
        """
        self._make = make
        self._transform = transform
        self.batches = batches
        self.source = LocalCluster("source", directory, 1, PROPERTIES)
        self.target = LocalCluster("target", directory, target_brokers, PROPERTIES)
        self.source_proxy, self.target_proxy = Proxy(self.source), Proxy(self.target)
        for broker in (*self.source.brokers, *self.target.brokers):
            _ask_for_credentials(broker)
        template = "{source}.{topic}" if make is None else "{topic}"
        self.pair = Pair(self.source.bootstrap, self.target.bootstrap, ALIAS, f"{ALIAS}-", template)
        self.failpoints = Failpoints(directory)
        self.temporary = directory / "tmp"
        self.local_disk = Disk(self.temporary, 128)
        self.broker_disk = Disk(directory / f"target-{target_brokers}" / "data", 256)  # of the target's last broker
        self.service: Service
        self._services: list[Service] = []
        self.directory = directory
        self._stack = ExitStack()

    def __enter__(self) -> Arena:
        with ExitStack() as stack:
            stack.enter_context(self.local_disk)
            stack.enter_context(self.broker_disk)
            stack.callback(self.source.kill)
            stack.callback(self.target.kill)
            start_together(self.source, self.target)
            for bootstrap in (self.pair.source, self.pair.target):
                credentials.allow(bootstrap, USER)
            stack.enter_context(self.source_proxy)
            stack.enter_context(self.target_proxy)
            stack.callback(self._close_services)
            self.pair.topic("first")
            self.start_service().await_plan()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_service(
        self,
        environment: Mapping[str, str] | None = None,
        spark: Mapping[str, Any] | None = None,
        pair: Pair | None = None,
        **flow: Any,
    ) -> Service:
        """Start another service and make it `service`; `flow` adds to the flow's keys, `pair` says what it mirrors."""
        own = {
            "transaction_timeout": f"{TRANSACTION_TIMEOUT}s",
            "on_data_loss": "skip",
            "on_poison_record": "skip",
            "exclude_configs": ["compression.type"],  # row 28 sets it on the remote topic
            "groups": {"sync": True, "interval": "1s", "include": [".*-(all|half)"]},  # see groups.py
            "transform": self._transform,
            "data_path": "auto" if self.batches else "records",
            **flow,
        }
        through = replace(pair or self.pair, source=self.source_proxy.bootstrap, target=self.target_proxy.bootstrap)
        make = Pair.settings if self._make is None else self._make
        settings = make(through, own, **({"spark": spark} if spark else {}))
        self.service = self.start_beside(settings, environment)
        return self.service

    def start_beside(self, settings: Settings, environment: Mapping[str, str] | None = None) -> Service:
        """Start another service, which shows its credentials to all clusters; `service` stays the one it is."""
        for cluster in settings["clusters"].values():
            cluster.update(credentials.properties(USER))
        own_environment = {**self.failpoints.environment, "TMPDIR": str(self.temporary), "PYTHONFAULTHANDLER": "1"}
        own_environment["PYTHONPATH"] = os.pathsep.join([own_environment["PYTHONPATH"], str(TRANSFORMS)])
        own_environment |= {"MIRROR_STAY": str(STAY), **(environment or {})}
        service = Service(settings, self.directory, own_environment)
        self._services.append(service)
        return service.start()

    def heal(self) -> None:
        """Undo all faults after a round that failed in the middle of its own."""
        self.failpoints.disarm()
        for proxy in (self.source_proxy, self.target_proxy):
            proxy.held = proxy.spoil = None
            proxy.heal()
        for broker in (*self.source.brokers, *self.target.brokers):
            broker.resume()
            if broker.process is None or broker.process.poll() is not None:
                broker.kill()
                broker.start()
        for bootstrap in (self.pair.source, self.pair.target):
            credentials.allow(bootstrap, USER)
        for process in self.service.processes():
            with contextlib.suppress(psutil.Error):
                process.resume()
        if self.service.exit_code is not None:
            self.start_service().await_plan()

    def ended(self) -> list[str]:
        """How the service has ended, if it has. No row ends it; after a crash this shows where each thread was."""
        code = self.service.exit_code
        return [] if code is None else [f"the service has ended with exit code {code}:\n{self.service.tail(100)}"]

    def _close_services(self) -> None:
        for service in self._services:
            service.close()

    def lines(self) -> list[str]:
        """What the services have said."""
        return [line for service in self._services for line in service.lines]

    def find(self, message: str, **fields: object) -> list[Event]:
        """Events of all services with this message and these fields."""
        return [event for service in self._services for event in service.find(message, 0, **fields)]

    def defects(self) -> list[str]:
        """What no fault may bring about: errors that mirror itself calls defects, and what it never says: stack traces.

        A service that ends may say why in its last line.
        """
        said = [line for s in self._services for line in s.noise if s.exit_code is None or line != s.lines[-1]]
        return [text[:500] for text in (*map(str, self.find(BUG)), *said)]


def _ask_for_credentials(broker: Broker) -> None:
    """Have the listener that the proxy forwards to ask for a login. The proxy has set the map of protocols."""
    protocols = str(broker.properties["listener.security.protocol.map"])
    broker.properties |= {
        "listener.security.protocol.map": protocols.replace("PROXIED:PLAINTEXT", "PROXIED:SASL_PLAINTEXT"),
        "sasl.enabled.mechanisms": credentials.MECHANISM,
        f"listener.name.proxied.{credentials.MECHANISM.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "connections.max.reauth.ms": REAUTHENTICATE,
    }
