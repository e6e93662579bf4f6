"""More listeners of brokers, for clients that have to log in or to use TLS, or that are elsewhere."""

from __future__ import annotations

from mirror.demo.brokers import Broker, free_port


def also_listen(
    broker: Broker, protocol: str, name: str | None = None, host: str = "127.0.0.1", told: str | None = None
) -> str:
    """Give a broker that is not started yet a listener with this security protocol, too. Returns its address.

    It listens at `host`; clients are told to come to `told`, if that is another one. A second listener with the
    protocol PLAINTEXT needs a `name` of its own.
    """
    name, port, properties = name or protocol, free_port(), broker.properties
    address = f"{told or host}:{port}"
    properties["listeners"] = f"{properties['listeners']},{name}://{host}:{port}"
    properties["advertised.listeners"] = f"{properties['advertised.listeners']},{name}://{address}"
    properties["listener.security.protocol.map"] = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{name}:{protocol}"
    properties["inter.broker.listener.name"] = "PLAINTEXT"
    return address
