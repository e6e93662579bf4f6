"""Every setting of MirrorMaker 2 and what becomes of it: the one table, for the command and for the documentation."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.commands.convert import client_settings, connector_settings, group_settings, worker_settings
from mirror.commands.convert.setting import Setting, by_name

# The parts of the documentation's table, in its order.
PARTS: Mapping[str, tuple[Setting, ...]] = {
    "The file": connector_settings.FILE,
    "What is copied, and how": connector_settings.COPYING,
    "Configurations and ACLs": connector_settings.SYNCING,
    "Consumer groups and checkpoints": group_settings.GROUPS,
    "Heartbeats": group_settings.HEARTBEATS,
    "Other settings of the connectors": connector_settings.REST,
    "Connect's workers": worker_settings.CONNECT,
    "Clients: the connection": client_settings.CONNECTION,
    "Clients: security": client_settings.SECURITY,
    "Clients: consumers": client_settings.CONSUMER,
    "Clients: producers": client_settings.PRODUCER,
    "Strimzi's resource": worker_settings.STRIMZI,
}

CONNECTORS = by_name((*connector_settings.ROWS, *group_settings.ROWS))
WORKERS = by_name(worker_settings.CONNECT)
STRIMZI = by_name(worker_settings.STRIMZI)
CLIENTS = by_name(client_settings.ROWS)
