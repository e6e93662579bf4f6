"""Topics for tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.harness import kafka_tools
from tests.harness.waiting import PATIENCE, until

_admins: dict[str, AdminClient] = {}
_one_asks = threading.Lock()


def admin(bootstrap: str) -> AdminClient:
    """An admin client that keeps still; one for each cluster, for a request dies with the last reference to it.

    So two threads must not make one each: only one of these would stay.
    """
    # As mirror.kafka.clients.admin says, without it a broker that is down costs a whole core.
    config = {"bootstrap.servers": bootstrap, "enable.sparse.connections": False, "log_level": 0}
    with _one_asks:
        if bootstrap not in _admins:
            _admins[bootstrap] = AdminClient(config)
        return _admins[bootstrap]


def client_of(broker: str) -> AdminClient:
    """A new one, which has heard of no other broker: one that has asks any of them."""
    return AdminClient({"bootstrap.servers": broker, "log_level": 0})


def create(bootstrap: str, topic: str, count: int = 1, **config: object) -> str:
    """Create a topic, and wait until a broker knows it; `config` keys with _ for each dot. Returns its name."""
    return create_replicated(bootstrap, topic, -1, count, **config)


def create_replicated(bootstrap: str, topic: str, factor: int, count: int = 1, **config: object) -> str:
    """The same with so many replicas; -1: as many as is the brokers' default."""
    return _created(bootstrap, NewTopic(topic, count, factor, config=_named(config)))


def create_placed(bootstrap: str, topic: str, replicas: Sequence[Sequence[int]], **config: object) -> str:
    """The same with these nodes for each partition; the first leads it, as long as it can."""
    placed = [list(each) for each in replicas]
    return _created(bootstrap, NewTopic(topic, len(placed), replica_assignment=placed, config=_named(config)))


def _named(config: Mapping[str, object]) -> dict[str, str]:
    return {key.replace("_", "."): str(value) for key, value in config.items()}


def _created(bootstrap: str, wanted: NewTopic) -> str:
    name = str(wanted.topic)

    def created() -> bool:
        """Not while a broker counts as gone, because a busy machine held up its heartbeat."""
        try:
            admin(bootstrap).create_topics([wanted])[name].result(PATIENCE)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    until(f"{name} is created", created)
    _await(bootstrap, name, wanted.num_partitions)
    return name


def _await(bootstrap: str, topic: str, count: int) -> None:
    """The controller has it; a broker hears of it a little later."""
    until(f"{topic} is known", lambda: partitions(bootstrap, topic) == count)


def grow(bootstrap: str, topic: str, count: int) -> None:
    """Add partitions up to this many, and wait until a broker knows them."""
    admin(bootstrap).create_partitions([NewPartitions(topic, count)])[topic].result(PATIENCE)
    _await(bootstrap, topic, count)


def leaders(broker: str, topic: str) -> dict[int, int]:
    """The leader of each partition, as this broker knows it."""

    def given() -> dict[int, int]:
        with contextlib.suppress(KafkaException):
            found = client_of(broker).list_topics(topic, timeout=5)
            return {number: partition.leader for number, partition in found.topics[topic].partitions.items()}
        return {}

    return until(f"leaders of {topic}", given)


def replicas(broker: str, topic: str, number: int = 0) -> tuple[int, list[int]]:
    """Leader and in-sync replicas of a partition, as this broker sees them; -1 and none while it does not know it."""
    partition = client_of(broker).list_topics(topic, timeout=10).topics[topic].partitions.get(number)
    return (partition.leader, sorted(partition.isrs)) if partition else (-1, [])


def elect(bootstrap: str) -> None:
    """Have each partition led by the first of its replicas again, where that is in sync."""
    admin(bootstrap).elect_leaders(ElectionType.PREFERRED).result(PATIENCE)


def coordinator(broker: str, group: str) -> int | None:
    """The node that coordinates a group, as this broker knows it; None: nobody is known."""
    client = client_of(broker)
    with contextlib.suppress(KafkaException):
        node = client.describe_consumer_groups([group])[group].result(30).coordinator
        return None if node is None else int(node.id)
    return None


def delete(bootstrap: str, topic: str) -> None:
    """Delete a topic."""
    admin(bootstrap).delete_topics([topic])[topic].result(PATIENCE)


def delete_others(bootstrap: str, kept: Callable[[str], bool]) -> None:
    """Delete all topics but those that are to be kept, as far as the brokers do it."""
    with contextlib.suppress(KafkaException, TimeoutError):
        names = [name for name in admin(bootstrap).list_topics(timeout=PATIENCE).topics if not kept(name)]
        for deleted in admin(bootstrap).delete_topics(names).values() if names else ():
            with contextlib.suppress(KafkaException):
                deleted.result(PATIENCE)


def recreate(bootstrap: str, topic: str, count: int = 1) -> None:
    """Delete a topic, and create another of its name with so many partitions once it is gone."""
    delete(bootstrap, topic)
    until("the topic is gone", lambda: not partitions(bootstrap, topic))
    create(bootstrap, topic, count)


@contextlib.contextmanager
def throttled(bootstrap: str, client: str, **limits: int) -> Iterator[None]:
    """Brokers throttle a client id to these quotas (such as producer_byte_rate, bytes per second) meanwhile."""
    command = kafka_tools.command("kafka.admin.ConfigCommand")
    command += ["--bootstrap-server", bootstrap, "--entity-type", "clients", "--entity-name", client, "--alter"]
    wanted = ",".join(f"{name}={limit}" for name, limit in limits.items())
    subprocess.run([*command, "--add-config", wanted], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*command, "--delete-config", ",".join(limits)], check=True, capture_output=True)


def partitions(bootstrap: str, topic: str) -> int:
    """How many the topic has; 0: there is no such topic."""
    found = admin(bootstrap).list_topics(topic, timeout=PATIENCE).topics.get(topic)
    return len(found.partitions) if found and found.error is None else 0


def topic_id(bootstrap: str, topic: str) -> str:
    """The topic's id (KIP-516): another one after it was created again."""

    def known() -> str | None:
        with contextlib.suppress(KafkaException):  # just created: not every broker knows it
            return str(admin(bootstrap).describe_topics(TopicCollection([topic]))[topic].result(PATIENCE).topic_id)
        return None

    return str(until(f"the id of {topic}", known))


def configuration(bootstrap: str, topic: str) -> dict[str, str]:
    """The topic's configuration, defaults included."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries: dict[str, Any] = admin(bootstrap).describe_configs([resource])[resource].result(PATIENCE)
    return {name: entry.value for name, entry in entries.items()}


def alter(bootstrap: str, topic: str, **config: object) -> None:
    """Set keys of a topic's configuration. Somebody else may set them back before anybody has seen it."""
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in _named(config).items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin(bootstrap).incremental_alter_configs([resource])[resource].result(PATIENCE)


def configure(bootstrap: str, topic: str, **config: object) -> None:
    """Set keys of a topic's configuration, and wait until the brokers have them."""
    wanted = _named(config)
    alter(bootstrap, topic, **config)
    until(f"{wanted} on {topic}", lambda: wanted.items() <= configuration(bootstrap, topic).items())


def commit(bootstrap: str, group: str, topic: str, positions: Mapping[int, int], metadata: str = "") -> None:
    """Commit positions of a topic's partitions to a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    offsets = [TopicPartition(topic, partition, position, metadata) for partition, position in positions.items()]

    def committed() -> bool:
        # The group's coordinator may still be loading.
        with contextlib.suppress(KafkaException):
            return all(each.error is None for each in consumer.commit(offsets=offsets, asynchronous=False))
        return False

    until(f"positions of {topic}", committed)
    consumer.close()


def ours(bootstrap: str, topic: str) -> str:
    """The metadata that mirror gives to positions in a source topic; without them it believes none."""
    return json.dumps({"topic_id": topic_id(bootstrap, topic)})


def delete_group(bootstrap: str, group: str) -> None:
    """Delete a group without members, with all its positions."""

    def deleted() -> bool:
        with contextlib.suppress(KafkaException):  # its coordinator moves or loads
            admin(bootstrap).delete_consumer_groups([group])[group].result(PATIENCE)
            return True
        return False

    until(f"group {group} is gone", deleted)


def delete_offsets(bootstrap: str, group: str, topic: str) -> None:
    """Delete a group's offsets of a topic, as the documents tell people to: with Kafka's own tool."""
    said = _tool(
        "consumer.group.ConsumerGroupCommand", bootstrap, "--delete-offsets", "--group", group, "--topic", topic
    )
    assert "Successful" in said, said


def open_transactions(bootstrap: str, topic: str) -> list[tuple[int, int, int]]:
    """Producer id, epoch and start offset of those that are open on partition 0, by `kafka-transactions.sh`."""
    asked = ("describe-producers", "--topic", topic, "--partition", "0")
    header, *lines = (line.split("\t") for line in _tool("TransactionsCommand", bootstrap, *asked).splitlines())
    columns = [name.strip() for name in header]
    found = [dict(zip(columns, (each.strip() for each in line), strict=True)) for line in lines]
    start = "CurrentTransactionStartOffset"
    return [(int(e["ProducerId"]), int(e["ProducerEpoch"]), int(e[start])) for e in found if e[start] != "None"]


def _tool(name: str, bootstrap: str, *asked: str) -> str:
    """What one of Kafka's own tools prints."""
    command = [*kafka_tools.command(f"org.apache.kafka.tools.{name}"), "--bootstrap-server", bootstrap, *asked]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended
    return ended.stdout


def remove_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    """Remove what is before an offset, as retention does."""
    where = TopicPartition(topic, partition, before)
    admin(bootstrap).delete_records([where])[where].result(PATIENCE)
