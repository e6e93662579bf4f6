"""All formats that mirror writes to topics, and into the positions' group.

    python -m tests.samples

writes the samples of this version into a folder of its name. Those of a release never change again: each later version
has to read them (tests/unit/test_samples.py).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import TopicPartition

from mirror.config.load import load
from mirror.control.control_topics import INTENT_KEY, PLAN_KEY, Claim
from mirror.control.decisions import Decision
from mirror.control.orders import Order, Scope
from mirror.control.plan import Plan
from mirror.control.reports import Report
from mirror.control.signs import GOODBYE_KEY, SIGN_KEY, Sign
from mirror.control.statement import Statement
from mirror.control.verification import VERIFY_KEY, Verification
from mirror.groups.checkpoints import Checkpoint
from mirror.groups.heartbeats import Heartbeat
from mirror.kafka import provenance
from mirror.kafka.transactional_ids import flow_leader_id, transactional_id
from mirror.model import Partition, Position
from mirror.service.canary_records import CanaryRecord
from mirror.target import connect_offsets, offset_map
from mirror.target.dead_letters import dead_letter
from mirror.target.offset_syncs import OffsetSync
from mirror.target.position_reader import from_committed, to_commit
from tests.harness.configuration import one_flow
from tests.samples import values

Record = Mapping[str, Any]  # bytes, texts and integers by name


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of record. `read` is mirror's own reading, or if only others read it, one that stands here.

    Of a `fixed` one the bytes may never change: programs of others, or an older mirror beside this one, depend on them.
    Of the others a newer mirror may write more.
    """

    write: Callable[[Any], Record]
    read: Callable[[Record], Any]
    samples: Sequence[Any]
    fixed: bool = False


def _keyed(each: Any) -> Record:
    """A record whose object makes its key and its value."""
    return {"key": each.key(), "value": each.value() if hasattr(each, "value") else each.encode()}


def _plan(key: bytes, plan: Plan) -> Record:
    return {"key": key, "value": plan.encode()}


def _read_plan(record: Record) -> tuple[Plan, Statement]:
    """What the flow itself reads, and what other flows read."""
    return Plan.decode(record["value"]), Statement.decode(record["value"])


def _read_order(record: Record) -> tuple[Scope, Order]:
    return Scope.decode(record["key"]), Order.decode(record["value"])


def _position(position: Position) -> Record:
    committed = to_commit(position, "primary.orders", 3)
    epoch = -1 if committed.leader_epoch is None else committed.leader_epoch
    return {"offset": committed.offset, "leader_epoch": epoch, "metadata": committed.metadata}


def _read_position(record: Record) -> Position | None:
    found = TopicPartition("primary.orders", 3, record["offset"], record["metadata"], record["leader_epoch"])
    return from_committed(found)


def _map_entry(sample: tuple[offset_map.Copied, offset_map.Entry]) -> Record:
    copied, entry = sample
    return {"key": entry.key(copied), "value": entry.value()}


def _read_map_entry(record: Record) -> tuple[offset_map.Copied, offset_map.Entry]:
    copied, downstream = offset_map.decode_key(record["key"])
    return copied, offset_map.decode_value(downstream, record["value"])


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A STRING of Kafka's protocol, and the place after it."""
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def _read_checkpoint(record: Record) -> Checkpoint:
    return Checkpoint.decode(record["key"], record["value"])


def _read_heartbeat(record: Record) -> Heartbeat:
    """Decode a heartbeat, like MirrorMaker's Heartbeat.java."""
    source, at = _text(record["key"], 0)
    version, timestamp = struct.unpack(">hq", record["value"])
    assert version == 0
    return Heartbeat(source, _text(record["key"], at)[0], timestamp)


def _connect_offset(sample: tuple[str, str, Partition, int]) -> Record:
    connector, cluster, partition, position = sample
    return {"key": connect_offsets.key(connector, cluster, partition), "value": connect_offsets.value(position)}


def _read_connect_offset(record: Record) -> tuple[str, str, Partition, int]:
    connector, of = json.loads(record["key"])
    found = connect_offsets.positions(
        [connect_offsets.Raw(0, record["key"], record["value"])], connector, of["cluster"]
    )
    ((partition, recorded),) = found.positions.items()
    return connector, of["cluster"], partition, recorded.position


def _dead_letter(letter: values.Letter) -> Record:
    whole = letter.value_bytes is None
    made = dead_letter(letter.partition, letter, letter.headers, letter.reason, whole)
    return {**{f"header {name}": value for name, value in made["headers"]}, "key": made["key"], "value": made["value"]}


def _read_dead_letter(record: Record) -> values.Letter:
    """Decode a dead letter, like a program that an operator has written."""
    about = {n.removeprefix("header mirror.dead-letter."): v for n, v in record.items() if "mirror.dead-letter" in n}
    own = [(n.removeprefix("header "), v) for n, v in record.items() if n.startswith("header ") and "mirror." not in n]
    size = about.get("value-bytes")
    return values.Letter(
        Partition(about["topic"].decode(), int(about["partition"])),
        int(about["offset"]),
        int(about["timestamp"]),
        about["reason"].decode(),
        record["key"],
        record["value"],
        own,
        None if size is None else int(size),
    )


def _route(sample: tuple[str, int, tuple[str, ...]]) -> Record:
    return {"header mirror.provenance": provenance.encode(*sample)}


def _read_route(record: Record) -> tuple[str, int, tuple[str, ...]]:
    value = record["header mirror.provenance"]
    topic, number = value.decode().split(",")[:2]
    return topic, int(number), provenance.route([value], topic, int(number))


def _names(aliases: tuple[str, str]) -> Record:
    """What a flow is called on its clusters: another version that calls it otherwise would not meet it there."""
    source, target = aliases
    settings = one_flow("source:9092", "target:9092", ["orders"], alias=source, target_alias=target)
    with values.temporary_file(yaml.safe_dump(settings)) as file:
        flow = load(Path(file)).flows[0]
    topics = ("control", "status", "offset_map", "offset_syncs", "checkpoint", "connect_offsets", "canary")
    return {
        "source": source,
        "target": target,
        **{name: getattr(flow, f"{name}_topic") for name in (*topics, "dead_letter")},
        "group": flow.group,
        "leader": flow_leader_id(flow),
        "partition": transactional_id(flow, "primary.orders", 3),
    }


FORMATS: Mapping[str, Format] = {
    "plan": Format(partial(_plan, PLAN_KEY), _read_plan, values.PLANS),
    "intent": Format(partial(_plan, INTENT_KEY), _read_plan, values.INTENTS),
    "claim": Format(_keyed, lambda record: Claim.decode(record["key"], record["value"]), values.CLAIMS),
    "order": Format(lambda of: {"key": of[0].key(), "value": of[1].encode()}, _read_order, values.ORDERS),
    "decision": Format(_keyed, lambda record: Decision.decode(record["key"], record["value"]), values.DECISIONS),
    "sign": Format(
        lambda each: {"key": SIGN_KEY, "value": each.encode()},
        lambda record: Sign.decode(record["value"]),
        values.SIGNS,
    ),
    "goodbye": Format(
        lambda each: {"key": GOODBYE_KEY, "value": each.encode()},
        lambda record: Sign.decode(record["value"]),
        values.SIGNS,
    ),
    "verification": Format(
        lambda each: {"key": VERIFY_KEY, "value": each.encode()},
        lambda record: Verification.decode(record["value"]),
        values.VERIFICATIONS,
    ),
    "report": Format(_keyed, lambda record: Report.decode(record["value"]), values.REPORTS),
    "position": Format(_position, _read_position, values.POSITIONS),
    "offset-map": Format(_map_entry, _read_map_entry, values.MAP_ENTRIES),
    "offset-sync": Format(
        _keyed, lambda record: OffsetSync.decode(record["key"], record["value"]), values.OFFSET_SYNCS, fixed=True
    ),
    "checkpoint": Format(_keyed, _read_checkpoint, values.CHECKPOINTS, fixed=True),
    "heartbeat": Format(_keyed, _read_heartbeat, values.HEARTBEATS, fixed=True),
    "connect-offset": Format(_connect_offset, _read_connect_offset, values.CONNECT_OFFSETS, fixed=True),
    "dead-letter": Format(_dead_letter, _read_dead_letter, values.DEAD_LETTERS, fixed=True),
    "canary": Format(
        lambda each: {"value": each.encode()}, lambda record: CanaryRecord.decode(record["value"]), values.CANARIES
    ),
    "provenance": Format(_route, _read_route, values.ROUTES, fixed=True),
    "names": Format(_names, lambda record: (record["source"], record["target"]), values.ALIASES, fixed=True),
}
