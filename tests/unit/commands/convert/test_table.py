"""The table of settings is complete, and the code does what it says."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.commands.convert import client_keys, flow_keys, together
from mirror.commands.convert.setting import CARRIED, FATES, MEANINGS, look_up
from mirror.commands.convert.table import CLIENTS, CONNECTORS, PARTS, WORKERS
from mirror.config.flow_model import FlowModel

# What MirrorMaker 2 defines itself: MirrorMakerConfig, the configurations of its three connectors and of its filters.
OWN = """
clusters config.providers dedicated.mode.enable.internal.rest enabled
source.cluster.alias target.cluster.alias replication.policy.class replication.policy.separator
replication.policy.internal.topic.separator.enabled replication.factor admin.timeout.ms offset-syncs.topic.location
emit.offset-syncs.enabled forwarding.admin.class metric.names.formats heartbeats.replication.enabled
topics topics.exclude topics.blacklist topic.filter.class config.properties.exclude config.properties.blacklist
config.property.filter.class use.defaults.from use.incremental.alter.configs consumer.poll.timeout.ms
refresh.topics.enabled refresh.topics.interval.seconds sync.topic.configs.enabled sync.topic.configs.interval.seconds
sync.topic.acls.enabled sync.topic.acls.interval.seconds offset.lag.max offset-syncs.topic.replication.factor
add.source.alias.to.metrics
groups groups.exclude groups.blacklist group.filter.class refresh.groups.enabled refresh.groups.interval.seconds
emit.checkpoints.enabled emit.checkpoints.interval.seconds checkpoints.topic.replication.factor
sync.group.offsets.enabled sync.group.offsets.interval.seconds
emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
tasks.max exactly.once.source.support exactly.once.support transaction.boundary transaction.boundary.interval.ms
offset.flush.interval.ms transforms transforms.a.type predicates predicates.a.type connector.class name
"""
CONNECT = """
group.id key.converter value.converter header.converter offset.storage.topic offset.storage.replication.factor
offset.storage.partitions config.storage.topic status.storage.topic rest.port rest.advertised.host.name listeners
plugin.path worker.sync.timeout.ms task.shutdown.graceful.timeout.ms
"""


@pytest.mark.parametrize("name", OWN.split())
def test_every_setting_of_mirrormaker_is_in_the_table(name: str) -> None:
    assert look_up(CONNECTORS, name), name


@pytest.mark.parametrize("name", CONNECT.split())
def test_settings_of_workers_are_in_the_table(name: str) -> None:
    assert look_up(WORKERS, name), name


def test_each_row_has_a_reason_or_a_key_of_ours() -> None:
    for part, rows in PARTS.items():
        for row in rows:
            assert row.fate in FATES and (row.why or row.ours), (part, row.name)
            assert not row.why.endswith("."), row.name
            assert row.why or row.fate in ("same", "renamed", "different"), row.name


def test_each_fate_has_a_meaning() -> None:
    assert list(MEANINGS) == [each for each in MEANINGS if each in FATES] and set(MEANINGS) == set(FATES)


def test_what_the_table_calls_carried_is_carried() -> None:
    told = {"clusters", "enabled", "config.providers", "source.cluster.alias", "target.cluster.alias"}
    for name, row in CONNECTORS.items():
        if row.fate in CARRIED and row.ours.startswith("flows[].") and name not in told:
            assert name in flow_keys.HANDLERS, name
    for name, row in CLIENTS.items():
        if row.ours.startswith("flows[].") and row.fate in CARRIED:
            assert name in flow_keys.CLIENT_HANDLERS, name
    assert client_keys.HANDLERS.keys() <= CLIENTS.keys()
    assert flow_keys.HANDLERS.keys() <= CONNECTORS.keys()
    assert together.RULES.keys() <= CONNECTORS.keys()


def test_keys_that_the_table_names_are_keys_of_ours() -> None:
    for rows in PARTS.values():
        for row in rows:
            if row.ours.startswith("flows[]."):
                *outer, last = row.ours.removeprefix("flows[].").split(".")
                model: Any = FlowModel
                for name in outer:
                    model = model.model_fields[name].annotation
                assert last in model.model_fields, row.name
