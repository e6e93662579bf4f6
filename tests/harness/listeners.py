"""More listeners of brokers, for clients that have to log in or to use TLS."""

from __future__ import annotations

from mirror.demo.brokers import Broker, free_port


def also_listen(broker: Broker, protocol: str) -> str:
    """Give a broker that is not started yet a listener with this security protocol, too. Returns its address."""
    address = f"127.0.0.1:{free_port()}"
    for key in ("listeners", "advertised.listeners"):
        broker.properties[key] = f"{broker.properties[key]},{protocol}://{address}"
    broker.properties["listener.security.protocol.map"] = (
        f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocol}:{protocol}"
    )
    return address
