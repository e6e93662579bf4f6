"""Asks brokers for their features (KIP-584), which librdkafka does not report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.greeting import Features

__all__ = ["Features", "ask"]


def ask(host: str, port: int, properties: Mapping[str, str]) -> Features:
    """Ask a broker for its features, connecting as librdkafka's `properties` say. Empty for a broker before Kafka 2.4.

    A broker answers that before the login (KIP-35, KIP-43): we do not log in, so any login will do. Raises WireError.
    """
    protocol = properties.get("security.protocol", "plaintext").lower().removeprefix("sasl_")
    without_login = access({**properties, "security.protocol": protocol})

    async def asked() -> Features:
        connection = await Connection.open((host, port), without_login)
        connection.close()
        return connection.abilities.features

    return asyncio.run(asked())
