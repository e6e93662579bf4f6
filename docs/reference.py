"""The tables of the reference pages, made from the code.

A page in docs/ holds a marker such as `<!-- generated: keys -->`. When the site is built, `hooks.py` puts the table of
that name there. Up to `<!-- end -->` the table is also committed, for readers of the repository: `make docs` brings it
up to date, and a test compares it. This module is the one place of the site that knows the package's modules.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from prometheus_client.core import Metric
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from mirror.commands.check.permissions import needs, words
from mirror.commands.convert import table
from mirror.commands.convert.setting import MEANINGS as FATES
from mirror.config import flow_model, model, value_types
from mirror.config.load import json_schema, settings_of
from mirror.config.located_yaml import SECRET
from mirror.config.reload_effects import EFFECTS
from mirror.config.resolved import written
from mirror.control.data_path import DATA_PATHS, OTHER_REASON, PATH_REASONS
from mirror.control.reports import LOST, TRANSACTION_OUTCOMES
from mirror.kafka.certificates import KINDS
from mirror.kafka.clients import SOURCE_CONSUMER
from mirror.kafka.producers import fixed_producer
from mirror.model import SIDES
from mirror.settings import Flow
from mirror.status.acl_overview import ACL_OUTCOMES
from mirror.status.config_overview import CONFIG_OUTCOMES
from mirror.status.flow_status import FLOW_STATES, PARTITION_STATES
from mirror.status.group_overview import GROUP_OUTCOMES
from mirror.web.metrics.labels import CLUSTER, FLOW, GROUP, PARTITION, TOPIC
from mirror.web.metrics.partitions import THROTTLE
from mirror.web.metrics.scrape import Metrics

__all__ = [
    "CLUSTER",
    "EFFECTS",
    "FLOW",
    "GROUP",
    "PARTITION",
    "Metrics",
    "table",
]  # what the tests of the site compare it with

ROOT = Path(__file__).parents[1]
WIDTH = 120
RUNBOOKS = ROOT / "docs" / "runbooks"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"

# Where each part of the file stands, and the part's model.
SECTIONS: dict[str, type[BaseModel]] = {
    "": model.RootModel,
    "clusters.<alias>": model.ClusterModel,
    "flows[]": flow_model.FlowModel,
    "flows[].topic_settings.<topic>": flow_model.TopicSettingsModel,
    "flows[].groups": flow_model.GroupsModel,
    "flows[].heartbeats": flow_model.HeartbeatsModel,
    "flows[].canary": flow_model.CanaryModel,
    "flows[].mirrormaker_offsets": flow_model.MirrorMakerOffsetsModel,
    "spark": model.SparkModel,
    "http": model.HttpModel,
    "metrics": model.MetricsModel,
    "metrics.otlp": model.OtlpModel,
    "log": model.LogModel,
}
# What `mirror config` may hide though no reference stands there: properties of clients and of Spark, headers, the path
# of a URL, and a password. The names of `token_provider` and `tls_key` say "secret", but their values are paths.
MAY_HOLD_SECRETS = frozenset(
    {
        ("clusters.<alias>", "consumer"),
        ("clusters.<alias>", "producer"),
        ("spark", "conf"),
        ("metrics.otlp", "headers"),
        ("metrics.otlp", "endpoint"),
        ("http", "password"),
    }
)

LABEL_VALUES = {
    ("mirror_flow_state", "state"): FLOW_STATES,
    ("mirror_partitions", "state"): (*PARTITION_STATES, OTHER_REASON),
    ("mirror_throttled_partitions", "by"): (*SIDES, THROTTLE),
    ("mirror_data_path_partitions", "path"): DATA_PATHS,
    ("mirror_record_path_partitions", "reason"): (*PATH_REASONS, OTHER_REASON),
    ("mirror_flow_topics", "side"): SIDES,
    ("mirror_flow_partitions", "side"): SIDES,
    ("mirror_certificate_expiry_timestamp_seconds", "kind"): KINDS,
    ("mirror_transactions", "outcome"): TRANSACTION_OUTCOMES,
    ("mirror_lost_offsets", "reason"): LOST,
    ("mirror_group_partitions", "outcome"): GROUP_OUTCOMES,
    ("mirror_topic_configs", "outcome"): CONFIG_OUTCOMES,
    ("mirror_topic_acls", "outcome"): ACL_OUTCOMES,
}
# By the metric, because a word may mean another thing in another one. A metric that is here has all of its values.
_STANDS_STILL = {
    "retrying": "the last try failed; it tries again, and goes on by itself once the cause has passed",
    "blocked": "it waits for a person, who has to decide or to repair something",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "mirror_flow_state": {
        "standby": "this service waits until no living service leads the flow, and then takes over",
        "starting": "its Spark query starts",
        "running": "its Spark query runs",
        **_STANDS_STILL,
        "stopped": "this service does not run the flow any more, as a rule because another one leads it",
    },
    "mirror_partitions": {
        "unassigned": "no task has it",
        "starting": "it is being taken over, or waits for records without a producer",
        "running": "it is copied",
        "paused": "a person has ordered it with `mirror pause`",
        **_STANDS_STILL,
        OTHER_REASON: "a state of a newer version of mirror; no value without one",
    },
    "mirror_throttled_partitions": {
        "source": "a quota of the source",
        "target": "a quota of the target",
        THROTTLE: "the `throttle` of the flow or of the topic",
    },
    "mirror_data_path_partitions": {
        "records": "record by record",
        "batches": "in whole record batches (`data_path: auto`)",
    },
    "mirror_record_path_partitions": {
        "without_transactions": "the flow has `exactly_once: false`",
        "active_active": "the flow has `active_active: true`, and each copy gets a header",
        "transform": "the topic has a transform",
        "compression": "`compression` of the flow or `compression.type` of the target says how records are compressed",
        "client": "the connection needs what only librdkafka has",
        "unsupported": "the target is older than Kafka 4.0, or its `transaction.version` is below 2",
        "source_too_old": "the source is older than Kafka 3.1",
        "log_append_time": "a batch of the source has the broker's own time, and the target would refuse it",
        "compacted": "compaction has removed records from a batch, and the target would refuse it",
        "old_format": "a batch has a format from before Kafka 0.11",
        "unknown_codec": "a batch is compressed in a way that mirror does not know",
        "too_large": "a batch is larger than the remote topic or mirror takes, or a large one got no answer",
        "small_batches": "the source has many small batches that can't be merged, and record by record is faster",
        "too_many_records": "a batch says that it has more than 262,144 records",
        "position_within_batch": "copying began within a batch: its rest is copied by records",
        "target_refuses": "the target refuses a batch, or would replace its timestamps",
        "interleaved": "somebody else writes to the remote partition",
        "too_slow": "the target does not take even a single batch in time",
        "doubted": "the position is missing or not the expected one, or does not belong to the records of the target",
        "remote_topic": "the remote topic was deleted, or another one has its name",
        "unknown_topic": "the plan does not have the id of the source topic",
        "recreated": "the source topic was deleted and created again",
        "out_of_range": "the source does not have the position's offset",
        "diverged": "an unclean leader election cut the source's log before the position",
        "unreadable": "a batch or an answer of the source can't be read",
        "refused": "the source refuses to give the partition, as without a permission",
        "defect": "a bug of the batch path: the log has it",
        OTHER_REASON: "a reason of a newer version of mirror",
    },
    "mirror_certificate_expiry_timestamp_seconds": {
        "ca": "of the authorities in `ssl.ca.location` or `ssl.ca.pem`, if it has at most 20 (a system's bundle has "
        "more)",
        "certificate": "mirror's own, in `ssl.certificate.location` or `ssl.certificate.pem`, with its chain",
        "http": "that of mirror's HTTP server, in `http.tls_certificate`, with its chain",
    },
    "mirror_transactions": {
        "committed": "the target has confirmed it",
        "aborted": "its records are copied again",
        "unknown": "nobody said how it ended; the target was asked, and what is missing is copied again",
    },
    "mirror_lost_offsets": {
        "deleted": "the source removed the records before they were copied",
        "truncated": "an unclean leader election cut the source's log",
        "recreated": "the source topic was deleted and created again; 1 for each partition, because nobody knows how "
        "many records it had",
        "corrupt": "the batch is damaged",
        "refused": "the target refused the record, or the transform failed for it",
        "dead_letter": "the same, and the record is in the dead-letter topic",
        "remote_topic": "the remote topic was deleted with the records; 1 for each partition",
    },
    "mirror_group_partitions": {
        "exact": "it is translated, and with `groups.sync` it is committed on the target",
        "earlier": "with `active_active`, an earlier offset stands for it, so that no record of the target is passed "
        "over",
        "ahead": "the copy has not come so far; the end of the copy stands for it",
        "untranslated": "it can't be translated: the status page and `/status` say why",
        "active": "the group has members on the target: nothing is committed",
        "backwards": "the group's offset on the target is higher, and stays",
        "denied": "the source does not give the group's offset, or the target does not give or take it",
    },
    "mirror_topic_configs": {
        "in_step": "nothing differs that mirror copies",
        "altered": "it differed at the last comparison, and was altered",
        "different": "it differs: the target refuses the change, or does not know a key that the source topic sets "
        "(list that key in `exclude_configs`); the status page and `/status` say why",
        "hidden": "a cluster does not let mirror read one of the two configurations",
    },
    "mirror_topic_acls": {
        "in_step": "the target has the ACL",
        "created": "the target lacked the ACL, and it was created",
        "missing": "the target refuses the ACL: the status page and `/status` say why",
        "not_copied": "a rule keeps the ACL from being copied: the status page and `/status` say which",
    },
}
# The finest comes first: its labels begin with those of the others.
GROUPS = {
    GROUP: "For each consumer group of a flow",
    PARTITION: "For each partition, or for each topic with `metrics: {labels: topic}`",
    TOPIC: "For each topic of a flow",
    FLOW: "For each flow",
    CLUSTER: "For each cluster",
    (): "For the service",
}
SERIES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
    "info": ("_info",),
}


def keys() -> str:
    """Every key of the configuration: what it does, what it must be, and its default."""
    return "\n".join(line for section in SECTIONS for line in _section(section))


def secrets() -> str:
    """The names that make a property a secret."""
    return f"A property is a secret if its name has one of these words in it: {SECRET.pattern.replace('|', ', ')}."


def fixed_properties() -> str:
    """The librdkafka properties that a configuration can't change."""
    consumer = {**SOURCE_CONSUMER, **_OF_SOURCE_CONSUMER}
    producer = {**fixed_producer(_flow()), **_OF_TARGET_PRODUCER}
    rows = [
        (f"`{name}`", DEPENDING.get(name) or f"`{json.dumps(value).strip(chr(34))}`", client)
        for client, properties in (("source consumer", consumer), ("target producer", producer))
        for name, value in properties.items()
    ]
    return _table(("property", "value", "client"), rows)


# What mirror sets where it makes the clients, besides SOURCE_CONSUMER and `fixed_producer`: a test compares them.
_OF_SOURCE_CONSUMER = {"group.id": "", "log_level": 7, "debug": "metadata"}
_OF_TARGET_PRODUCER = {"transactional.id": "", "enable.gapless.guarantee": True, "socket.timeout.ms": 0}
# Where the value is not the same for all flows.
DEPENDING = {
    "group.id": "the flow's `group`",
    "transactional.id": "one for each partition; none with `exactly_once: false`",
    "transaction.timeout.ms": "`transaction_timeout`",
    "message.timeout.ms": "`transaction_timeout`; `0` with `exactly_once: false`",
    "connections.max.idle.ms": "`transaction_timeout`",
    "queue.buffering.max.messages": "twice `batch_max_records`, and at least `100000`",
    "enable.gapless.guarantee": "`true` with `exactly_once: false`",
    "socket.timeout.ms": "yours, but at least 100 ms less than `transaction_timeout`",
}


def _flow(**keys: Any) -> Flow:
    """A flow from `primary` to `backup` with these keys."""
    ends = {"source": "primary", "target": "backup"}
    clusters = {alias: {"bootstrap.servers": alias} for alias in ends.values()}
    root = model.RootModel.model_validate({"clusters": clusters, "flows": [{**ends, **keys}]})
    (flow,) = settings_of(root, frozenset(), {}, ()).flows
    return flow


def permissions() -> str:
    """What a flow needs that uses every setting, as `mirror check --acls` declares it."""
    every = {
        "groups": {"sync": True},
        **{key: {"enabled": True} for key in ("heartbeats", "canary", "mirrormaker_offsets")},
        "sync_acls": True,
        "active_active": True,
        "on_poison_record": "dead_letter",
    }
    flow, rows = _flow(**every), []
    for need in needs(flow, {"orders": "primary.orders"}, ["billing"], ["mirror-backup-primary"]):
        names = ", ".join(f"`{name}{'*' * need.prefixed}`" for name in need.names)
        role = "source" if need.cluster is flow.source else "target"
        rows.append((role, f"{need.kind} {names}".strip(), words(need.operations), need.why, _REQUIRED[need.required]))
    return _table(("cluster", "resource", "operations", "needed", "without it"), rows)


def metrics() -> str:
    """Every metric with its type, unit, labels and help."""
    groups: dict[tuple[str, ...], list[str]] = {labels: [] for labels in GROUPS}
    for family in Metrics([]).registry.collect():
        labels = tuple(getattr(family, "_labelnames", ()))
        group = next(common for common in GROUPS if labels[: len(common)] == common)
        groups[group].append(_metric(family, labels))
    return "\n".join(f"## {GROUPS[labels]}\n\n" + "\n".join(each) for labels, each in groups.items())


def alerts() -> str:
    """Every alert with its severity and what it means."""
    rows = []
    for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]:
        name = rule["alert"]
        meaning = (RUNBOOKS / f"{name}.md").read_text().partition("**What it means.** ")[2].partition("\n")[0]
        rows.append((f"[{name}]({name}.md)", rule["labels"]["severity"], meaning))
    return _table(("alert", "severity", "what it means"), rows)


def mirrormaker_fates() -> str:
    """What can become of a setting of MirrorMaker 2."""
    return _table(("in mirror", "meaning"), [(fate, meaning) for fate, meaning in FATES.items()])


def mirrormaker_settings() -> str:
    """Every setting of MirrorMaker 2 with what becomes of it: the table that `mirror convert` uses."""
    columns = ("setting", "MirrorMaker's default", "in mirror", "mirror's key", "why, or what differs")
    parts = []
    for part, settings in table.PARTS.items():
        rows = [
            (_code(each.name), _code(each.default), each.fate, _code(each.ours), _escaped(each.why))
            for each in settings
        ]
        parts.append(f"### {part}\n\n{_table(columns, rows)}\n")
    return "\n".join(parts)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


_REQUIRED = {True: "nothing is copied", False: "records are copied all the same"}
TABLES: dict[str, Callable[[], str]] = {
    "keys": keys,
    "secrets": secrets,
    "fixed properties": fixed_properties,
    "metrics": metrics,
    "permissions": permissions,
    "alerts": alerts,
    "mirrormaker fates": mirrormaker_fates,
    "mirrormaker settings": mirrormaker_settings,
}


MARKER = re.compile(r"<!-- generated: ([a-z ]+) -->(?:\n(?:(?!<!--).)*<!-- end -->)?", re.DOTALL)
# The site's own names of headings, and the links to them. In the repository a heading has only the name that its text
# gives it, which may be that of several keys.
ANCHOR = re.compile(r" \{#([^}\s]+)\}$", re.MULTILINE)
OWN_LINK = re.compile(r"\[([^\[\]]+)\]\(#([^()\s]+)\)")


def committed(markdown: str) -> str:
    """A page with its committed tables as they are to be, from one with such as they were. Raises KeyError."""

    def block(found: re.Match[str]) -> str:
        if not found[0].endswith("<!-- end -->"):
            return found[0]
        return f"<!-- generated: {found[1]} -->\n\n{_in_the_repository(TABLES[found[1]]()).strip()}\n\n<!-- end -->"

    return MARKER.sub(block, markdown)


def _in_the_repository(table: str) -> str:
    """A table without the site's names of headings: a link to one of them is its text alone."""
    names = set(ANCHOR.findall(table))
    return OWN_LINK.sub(lambda link: link[1] if link[2] in names else link[0], ANCHOR.sub("", table))


def main() -> None:
    """Bring the committed tables of all pages up to date."""
    for page in Path(__file__).parent.rglob("*.md"):
        before = page.read_text()
        if (after := committed(before)) != before:
            page.write_text(after)


def fields(section: str) -> Iterator[tuple[str, FieldInfo]]:
    """The keys of one section as they are written in the file."""
    for name, field in SECTIONS[section].model_fields.items():
        yield field.alias or name, field


def default(field: FieldInfo) -> str:
    """The default as one would write it into the file."""
    value = field.default
    if isinstance(value, BaseModel):
        return "{}"
    value = written(field, value)
    return json.dumps(value) if isinstance(value, list | dict | bool) or value is None else str(value)


def _section(section: str) -> Iterator[str]:
    kind = SECTIONS[section]
    yield f"## `{section}` {{#section-{_anchor(section, '')}}}\n" if section else "## The top level\n"
    yield _wrapped(str(kind.__doc__)) + "\n"
    rows = []
    for key, field in fields(section):
        shown = "required" if field.is_required() else f"`{default(field)}`"
        rows.append((f"[`{key}`](#{_anchor(section, key)})", type_of(kind, key, field), shown))
    if kind.model_config.get("extra") == "allow":
        rows.append(("any other key", "text, number, `true` or `false`", ""))
    yield _table(("key", "type", "default"), rows) + "\n"
    for key, field in fields(section):
        yield from _key(section, key, field)


def _key(section: str, key: str, field: FieldInfo) -> Iterator[str]:
    yield f"### `{key}` {{#{_anchor(section, key)}}}\n"
    yield _wrapped(str(field.description)) + "\n"
    extra = field.json_schema_extra
    if isinstance(extra, dict) and value_types.ALLOWED in extra:
        yield _wrapped(f"Must be {_escaped(str(extra[value_types.ALLOWED]))}.", "- ")
    if key in EFFECTS[section]:
        yield f"- A change takes effect {EFFECTS[section][key]}."
    yield "- Required." if field.is_required() else f"- Default: `{default(field)}`"
    if (section, key) in MAY_HOLD_SECRETS:
        yield "- May hold [secrets](#secrets)."
    yield ""


def type_of(kind: type[BaseModel], key: str, field: FieldInfo) -> str:
    named = {value_types.seconds: "duration", value_types.size: "size", value_types.start: "time"}
    for validator, may_be_null in _validators(field):
        if validator in named:
            return named[validator] + " or null" * may_be_null
    schema = json_schema()
    node = (schema if kind is model.RootModel else schema["$defs"][kind.__name__])["properties"][key]
    kinds = [_schema_type(each) for each in node.get("anyOf", [node])]
    return " or ".join(kinds)


def _schema_type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return "one of " + ", ".join(f"`{value}`" for value in node["enum"])
    words = {"integer": "whole number", "string": "text", "boolean": "true or false", "array": "list", "null": "null"}
    kinds = node.get("type", "")
    return " or ".join(words.get(kind, "mapping") for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _validators(field: FieldInfo) -> Iterator[tuple[Callable[..., Any], bool]]:
    """What reads the value, and whether it may be null: then the validators are those of a part of the union."""
    yield from ((each.func, False) for each in field.metadata if isinstance(each, BeforeValidator))
    parts = get_args(field.annotation)
    for part in parts:
        marks = getattr(part, "__metadata__", ())
        yield from ((each.func, type(None) in parts) for each in marks if isinstance(each, BeforeValidator))


def _anchor(section: str, key: str) -> str:
    place = section.replace("[]", "").replace(".<alias>", "").replace(".<topic>", "")
    return ".".join(part for part in (place, key) if part)


def exposed(family: Metric) -> list[str]:
    """The names of a metric's series in Prometheus."""
    return [family.name + suffix for suffix in SERIES.get(family.type, ("",))]


def _metric(family: Metric, labels: Iterable[str]) -> str:
    names = exposed(family)
    title = names[0] if len(names) == 1 else family.name
    kind = f"{family.type.capitalize()}{f', in {family.unit}' if family.unit else ''}."
    series = f" Series: {', '.join(f'`{name}`' for name in names)}." if len(names) > 1 else ""
    lines = [f"### `{title}` {{#{title}}}\n", f"{family.documentation}\n", f"- {kind}{series}"]
    lines += [_values(family.name, label) for label in labels if label not in PARTITION + GROUP + CLUSTER]
    listed = ", ".join(f"`{label}`" for label in labels)
    return "\n".join([*lines, f"- Labels: {listed}.\n" if listed else ""])


def _values(metric: str, label: str) -> str:
    values = LABEL_VALUES[metric, label]
    if metric not in MEANINGS:
        return f"- `{label}` is {' or '.join(f'`{value}`' for value in values)}."
    meanings = [_wrapped(f"`{value}`: {MEANINGS[metric][value]}", "    - ") for value in values]
    return "\n".join((f"- `{label}` is one of", *meanings))


def _wrapped(text: str, bullet: str = "") -> str:
    """The text in lines of the repository's width, as an entry of a list if there is a bullet."""
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _escaped(text: str) -> str:
    """The text as Markdown that shows exactly this."""
    return re.sub(r"([\\`*_{}\[\]])", r"\\\1", text).replace("<", "&lt;")


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    main()
