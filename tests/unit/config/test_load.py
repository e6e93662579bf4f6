"""The configuration file: what is accepted, what is refused and in which words, and that secrets stay secret."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from pydantic import BaseModel, ValidationError

from mirror import service_settings, settings
from mirror.config import flow_model
from mirror.config import model as config_model
from mirror.config.explain import Explainer
from mirror.config.librdkafka import servers
from mirror.config.load import json_schema, load
from mirror.config.value_types import seconds, size, start
from mirror.errors import ConfigError
from mirror.kafka.producers import transactional_properties
from tests.harness.waiting import PATIENCE
from tests.unit.test_naming import OWN

EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"

CLUSTERS = """\
clusters:
  primary: {bootstrap.servers: "localhost:9092"}
  backup: {bootstrap.servers: "localhost:9093"}
"""
FLOW = """\
flows:
  - source: primary
    target: backup
"""
GOOD = CLUSTERS + FLOW  # its last line is 6
OPPOSITE = """\
  - source: backup
    target: primary
"""
OIDC = (
    "security.protocol: SASL_SSL",
    "sasl.mechanisms: OAUTHBEARER",
    "sasl.oauthbearer.method: oidc",
    "sasl.oauthbearer.client.id: mirror",
    "sasl.oauthbearer.token.endpoint.url: https://tokens.example",
)


def read(folder: Path, text: str, **environ: str) -> service_settings.Settings:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ)


def refused(folder: Path, text: str, **environ: str) -> list[str]:
    """The problems, without the folder in front."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text, **environ)
    prefix = f"{folder}{os.sep}"
    assert all(problem.startswith(prefix) for problem in caught.value.problems)
    return [problem.removeprefix(prefix) for problem in caught.value.problems]


def cluster(*properties: str) -> str:
    """A good file but for properties of `primary`, the first of which is in line 4."""
    lines = "".join(f"    {line}\n" for line in properties)
    return (
        "clusters:\n  primary:\n    bootstrap.servers: localhost:9092\n"
        f"{lines}  backup: {{bootstrap.servers: localhost:9093}}\n{FLOW}"
    )


def laughs(form: str) -> str:
    """Good, but for lines of which each has the one before in it ten times: a billion values."""
    lines = [f"a{n}: &a{n} " + form.format(", ".join([f"*a{n - 1}"] * 10)) for n in range(1, 10)]
    return GOOD + "\n".join(["a0: &a0 {ha: ha}", *lines, ""])


# name: (file, place, words that must be in the problem). Each file has that one problem only.
BAD: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "empty file": ("", "1: ", ("empty", "clusters, flows, flow_defaults, spark, http, metrics, log, drain_timeout")),
    "defaults of neither side": (
        GOOD + "    use_defaults_from: both\n",
        "7: flows[0].use_defaults_from: ",
        ("must be target or source",),
    ),
    "configurations too often": (
        GOOD + "    sync_topic_configs_interval: 100ms\n",
        "7: flows[0].sync_topic_configs_interval: ",
        ("a duration from 1s to 24h",),
    ),
    "ACLs too seldom": (
        GOOD + "    sync_acls_interval: 25h\n",
        "7: flows[0].sync_acls_interval: ",
        ("a duration from 1s to 24h",),
    ),
    "a bad expression for configurations": (
        GOOD + "    exclude_configs: ['*.ms']\n",
        "7: flows[0].exclude_configs",
        ("bad regular expression",),
    ),
    "a certificate without its key": (
        GOOD + "http: {tls_certificate: a.pem}\n",
        "7: http: ",
        ("tls_certificate is set, but tls_key is not; set both",),
    ),
    "a password without a user": (
        GOOD + "http: {password: hunter2}\n",
        "7: http: ",
        ("password is set, but username is not; set both",),
    ),
    "a user with a colon": (
        GOOD + "http: {username: 'a:b', password: c}\n",
        "7: http.username: ",
        ("must be printable text without a colon",),
    ),
    "a token provider that is no path": (
        cluster("security.protocol: sasl_ssl", "sasl.mechanisms: OAUTHBEARER", "token_provider: tokens"),
        "6: clusters.primary.token_provider: ",
        ("must be the dotted path of a callable",),
    ),
    "a token provider for a password": (
        cluster("security.protocol: ssl", "token_provider: shop.tokens.token"),
        "5: clusters.primary.token_provider: ",
        ("needs sasl.mechanisms: OAUTHBEARER",),
    ),
    "a token provider besides an OIDC server": (
        cluster(
            "security.protocol: sasl_ssl",
            "sasl.mechanisms: OAUTHBEARER",
            "token_provider: shop.tokens.token",
            "sasl.oauthbearer.method: oidc",
            "sasl.oauthbearer.client.id: mirror",
            "sasl.oauthbearer.client.secret: hunter2",
            "sasl.oauthbearer.token.endpoint.url: https://tokens.example",
        ),
        "6: clusters.primary.token_provider: ",
        ("from here, or from sasl.oauthbearer.method: oidc, and not from both",),
    ),
    "only comments": ("# nothing\n", "1: ", ("empty", "a mapping with the keys clusters")),
    "top level is a list": ("- a\n", "1: ", ("not a mapping", "clusters, flows, flow_defaults, spark")),
    "top level is text": ("clusters\n", "1: ", ("not a mapping", "clusters, flows")),
    "syntax": (GOOD + "http: {port: 1\n", "8: ", ("bad YAML", "in quotes")),
    "tab": (GOOD + "http:\n\tport: 1\n", "8: bad YAML: a tab; YAML indents by spaces only", ()),
    "reference within braces": (
        GOOD + "http: {password: ${env:PASSWORD}}\n",
        "7: bad YAML: while parsing a flow mapping, expected ',' or '}', but got '{'; ${...} within { } or [ ] must",
        ("be in quotes",),
    ),
    "alias that may be a secret": (
        cluster("sasl.password: *hidden"),
        "4: bad YAML: found undefined alias; a value that begins with one of * &",
        (),
    ),
    "two documents": (GOOD + "---\na: 1\n", "7: ", ("bad YAML", "single document")),
    "control character": (GOOD + "log: \x07\n", "7: ", ("bad YAML", "control character", "escaped")),
    "half of a surrogate pair": (
        cluster(r'client.id: "\ud800"'),
        "4: clusters.primary.client.id: ",
        ("the value holds a NUL, or what is not Unicode text",),
    ),
    "NUL in a secret": (cluster(r'sasl.password: "a\0b"'), "4: clusters.primary.sasl.password: ", ("holds a NUL",)),
    "NUL in a host": (GOOD + 'http: {host: "a\\0b"}\n', "7: http.host: ", ("holds a NUL",)),
    "key that is no text": (GOOD + '"\\ud800": 1\n', "7: …: ", ("the key holds a NUL, or what is not Unicode",)),
    "property that is no text": (cluster(r'"\ud800": 1'), "4: clusters.primary.…: ", ("the key holds a NUL",)),
    "escape beyond Unicode": (GOOD + '"\\UFFFFFFFF": 1\n', "1: ", ("can't be read", "too large")),
    "alias in itself": ("clusters: &a [*a]\n", "1: ", ("nested too deeply",)),
    "nested deeply": ("[" * 5000, "1: ", ("nested too deeply",)),
    "nested aliases": (laughs("[{}]"), "8: ", ("aliases repeat", "more than 100,000 times")),
    "nested merges": (laughs("{{<<: [{}]}}"), "8: ", ("aliases repeat", "more than 100,000 times")),
    "aliases of a reference": (
        GOOD + 'x: &x "${file:config.yaml}"\ny: [' + ", ".join(["*x"] * 10_000) + "]\n" + "#" * 2000,
        "",
        ("values with ${...} are larger than 16,777,216 characters",),
    ),
    "large file": (GOOD + "#" * 2**20, "", ("can't be read: larger than 1,048,576 bytes",)),
    "secret that is no file": (
        cluster("sasl.password: ${file:/dev/zero}"),
        "4: clusters.primary.sasl.password: file /dev/zero can't be read: not a regular file",
        (),
    ),
    "duplicate key": (
        GOOD + "http: {port: 1}\nhttp: {port: 2}\n",
        "8: http: ",
        ("duplicate key", "first in line 7", "once"),
    ),
    "duplicate property": (
        cluster("client.id: a", "client.id: b"),
        "5: clusters.primary.client.id: ",
        ("duplicate key, first in line 4",),
    ),
    "key that is a list": (GOOD + "? [a]\n: 1\n", "7: ", ("a key must be text",)),
    "tag": (GOOD + "    group: !python/name:os.system x\n", "7: flows[0].group: ", ("tag", "only plain text")),
    "merge of text": (GOOD + "log:\n  <<: info\n", "8: log: ", ("<< must be an alias of a mapping",)),
    "unknown key": (
        GOOD + "htpp: {port: 1}\n",
        "7: htpp: ",
        ("unknown key", '"http"', "clusters, flows, flow_defaults, spark"),
    ),
    "unknown key of a flow": (
        GOOD + "    topcis: [a]\n",
        "7: flows[0].topcis: ",
        ("unknown key", 'did you mean "topics"', "source, target, group, topics, exclude"),
    ),
    "unknown key unlike any": (
        GOOD + "log:\n  zzz: 1\n",
        "8: log.zzz: ",
        ("unknown key; allowed: level, format",),
    ),
    "port is a word": (GOOD + 'http:\n  port: "abc"\n', "8: http.port: ", ("from 0 to 65535", 'not "abc"')),
    "port is true": (GOOD + "http: {port: true}\n", "7: http.port: ", ("a whole number from 0 to 65535",)),
    "port is a fraction": (GOOD + "http: {port: 1.5}\n", "7: http.port: ", ("a whole number", 'not "1.5"')),
    "port too high": (GOOD + "http: {port: 65536}\n", "7: http.port: ", ("from 0 to 65535", 'not "65536"')),
    "host empty": (GOOD + 'http: {host: ""}\n', "7: http.host: ", ("an address", "0.0.0.0")),
    "labels of another kind": (
        GOOD + "metrics: {labels: topics}\n",
        "7: metrics.labels: ",
        ("partition (a series for each) or topic", 'not "topics"'),
    ),
    "endpoint is no URL": (
        GOOD + "metrics: {otlp: {endpoint: 'localhost:4318'}}\n",
        "7: metrics.otlp.endpoint: ",
        ("a URL, e.g. http://localhost:4318/v1/metrics",),
    ),
    "port of the endpoint too high": (
        GOOD + "metrics: {otlp: {endpoint: 'http://h:99999/x'}}\n",
        "7: metrics.otlp.endpoint: must be a URL, e.g. http://localhost:4318/v1/metrics",
        (),
    ),
    "port of the endpoint is a word": (
        GOOD + "metrics: {otlp: {endpoint: 'http://h:abc'}}\n",
        "7: metrics.otlp.endpoint: must be a URL, e.g. http://localhost:4318/v1/metrics",
        (),
    ),
    "colon in a header's name": (
        GOOD + "metrics: {otlp: {headers: {'a:b': c}}}\n",
        "7: metrics.otlp.headers.a…: a header's name must be made of letters, digits and !#$%&'*+-.^_`|~ only",
        (),
    ),
    "header without a name": (
        GOOD + "metrics: {otlp: {headers: {'': c}}}\n",
        "7: metrics.otlp.headers.: a header's name must be made of letters",
        (),
    ),
    "password in the endpoint": (
        GOOD + "metrics: {otlp: {endpoint: 'https://u:hidden-part@h/v1/metrics'}}\n",
        "7: metrics.otlp.endpoint: ",
        ("must hold no user, password, query or fragment; use headers",),
    ),
    "token in the endpoint": (
        GOOD + "metrics: {otlp: {endpoint: 'https://h/v1/metrics?token=hidden-part'}}\n",
        "7: metrics.otlp.endpoint: ",
        ("must hold no user, password, query or fragment; use headers",),
    ),
    "line break in a header": (
        GOOD + 'metrics: {otlp: {headers: {authorization: "Bearer hidden-part\\n"}}}\n',
        "7: metrics.otlp.headers.authorization: ",
        ("must be printable ASCII text without blanks around it",),
    ),
    "pushed too often": (
        GOOD + "metrics: {otlp: {interval: 100ms}}\n",
        "7: metrics.otlp.interval: ",
        ("a duration from 1s to 1h",),
    ),
    "empty header": (
        GOOD + "metrics: {otlp: {headers: {authorization: ''}}}\n",
        "7: metrics.otlp.headers.authorization: ",
        ("text, not empty",),
    ),
    "topics is text": (GOOD + "    topics: orders\n", "7: flows[0].topics: ", ("must be a list, e.g. [orders]",)),
    "topics empty": (GOOD + "    topics: []\n", "7: flows[0].topics: ", ("must be a list", "not empty")),
    "topics with null": (GOOD + "    topics: [a, ~]\n", "7: flows[0].topics[1]: ", ("a topic's name",)),
    "topics with empty text": (GOOD + '    topics: [""]\n', "7: flows[0].topics[0]: ", ("a topic's name",)),
    "bad regular expression": (
        GOOD + "    topics:\n      - orders\n      - (\n",
        '9: flows[0].topics[1]: bad regular expression "(": missing ), unterminated subpattern at position 0',
        (),
    ),
    "bad regular expression to exclude": (
        GOOD + "    exclude: ['*']\n",
        '7: flows[0].exclude[0]: bad regular expression "*": nothing to repeat',
        (),
    ),
    "a set within a set": (
        GOOD + "    topics: ['[[:alpha:]]+']\n",
        '7: flows[0].topics[0]: bad regular expression "[[:alpha:]]+": sets within sets',
        ("write one set such as [a-zA-Z]",),
    ),
    "an intersection of sets to exclude": (
        GOOD + "    exclude: ['[a-z&&[^o]].*']\n",
        '7: flows[0].exclude[0]: bad regular expression "[a-z&&[^o]].*": sets within sets',
        (),
    ),
    "too many repetitions": (
        GOOD + "    topics: ['a{99999999999}']\n",
        "7: flows[0].topics[0]: bad regular expression",
        ("too large",),
    ),
    "topic that the cycle rule leaves out": (
        GOOD + "    topics:\n      - orders\n      - backup.orders\n",
        '9: flows[0].topics[1]: "backup.orders" is never copied: a cycle',
        ('alias "backup"',),
    ),
    "internal topic": (
        GOOD + "    topics: [a, orders-internal]\n    exclude: []\n",
        '7: flows[0].topics[1]: "orders-internal" is never copied: internal',
        ('ends in "-internal"',),
    ),
    "topic that is hidden": (GOOD + "    topics: [.a]\n", "7: flows[0].topics[0]: ", ("never copied: internal",)),
    "topic of Kafka's own": (
        GOOD + "    topics: [__consumer_offsets]\n",
        "7: flows[0].topics[0]: ",
        ('begins with "__"',),
    ),
    "topic that the flow excludes": (
        GOOD + "    topics: [orders, payments]\n    exclude: ['pay.*']\n",
        "7: flows[0].topics[1]: ",
        ('"pay.*" in exclude matches it',),
    ),
    "topic that is excluded by default": (
        GOOD + "    topics: [orders.replica]\n",
        "7: flows[0].topics[0]: ",
        ("never copied", "in exclude matches it"),
    ),
    "nothing in a list": (GOOD + "    topics:\n", "7: flows[0].topics: ", ("must be a list", "not empty")),
    "null that takes nothing away": (
        GOOD + "log: {level: null}\n",
        "7: log.level: ",
        ("must be debug, info, warning or error",),
    ),
    "section is text": (GOOD + "spark: local\n", "7: spark: ", ("a mapping with the keys master, conf",)),
    "cluster is text": (
        GOOD.replace("flows:", "  third: localhost\nflows:"),
        "4: clusters.third: ",
        ("a mapping of librdkafka properties, e.g. {bootstrap.servers:",),
    ),
    "flow is text": (CLUSTERS + "flows: [a]\n", "4: flows[0]: ", ("a mapping with the keys source, target",)),
    "flows is a mapping": (CLUSTERS + "flows: {source: a}\n", "4: flows: ", ("a list of flows, e.g.",)),
    "no flow": (CLUSTERS + "flows: []\n", "4: flows: ", ("a list of flows", "not empty")),
    "flows missing": (CLUSTERS, "1: flows: ", ("missing", "a list of flows")),
    "target missing": (
        CLUSTERS + "flows:\n  - source: primary\n",
        "5: flows[0].target: ",
        ("missing", "the alias of a cluster"),
    ),
    "no brokers": (
        GOOD.replace("flows:", "  third:\n    client.id: a\nflows:"),
        "4: clusters.third.bootstrap.servers: ",
        ("missing", "e.g. localhost:9092"),
    ),
    "brokers are no servers": (
        GOOD.replace("localhost:9093", "localhost:port"),
        "3: clusters.backup.bootstrap.servers: ",
        ("a comma-separated list of host:port",),
    ),
    "broker's port too high": (
        GOOD.replace("localhost:9093", "a:1,localhost:70000"),
        "3: clusters.backup.bootstrap.servers: ",
        ("host:port",),
    ),
    "bad alias": (
        GOOD.replace("flows:", "  a/b: {bootstrap.servers: c}\nflows:"),
        "4: clusters.a…: ",
        ("letters, digits, '.', '_' and '-'",),
    ),
    "long alias": (
        GOOD.replace("flows:", f"  {'a' * 101}: {{bootstrap.servers: c}}\nflows:"),
        f"4: clusters.{'a' * 101}: a cluster's alias must have 1 to 100 letters",
        (),
    ),
    "empty alias": (
        GOOD.replace("flows:", "  '': {bootstrap.servers: c}\nflows:"),
        "4: clusters.: a cluster's alias must have 1 to 100 letters",
        (),
    ),
    "undefined cluster": (
        GOOD.replace("target: backup", "target: backpu"),
        '6: flows[0].target: undefined cluster "backpu"; ',
        ("defined: primary, backup",),
    ),
    "onto itself": (GOOD.replace("target: backup", "target: primary"), "6: flows[0].target: ", ("must differ",)),
    "one cluster under two aliases": (
        GOOD.replace("localhost:9093", "other:1, PLAINTEXT://LOCALHOST"),
        "6: flows[0].target: ",
        ("the same cluster", "bootstrap.servers"),
    ),
    "pair twice": (
        GOOD + "  - {source: primary, target: backup, group: other}\n",
        "7: flows[1]: ",
        ("flows[0] has the same source and target", "once"),
    ),
    "group twice on one target": (
        GOOD.replace("flows:", "  third: {bootstrap.servers: c}\nflows:")
        + "  - source: third\n    target: backup\n    group: mirror-primary-backup\n",
        "10: flows[1].group: ",
        ("flows[0] has the same group on the same target", "its own"),
    ),
    "identity in both directions": (
        GOOD + "    replication_policy: identity\n" + OPPOSITE + "    replication_policy: identity\n",
        "10: flows[1].replication_policy: ",
        ("flows[0]", "for ever", "use default", "lists of topic names"),
    ),
    "identity in both directions, a name in common": (
        GOOD
        + "    replication_policy: identity\n    topics: [a, b]\n"
        + OPPOSITE
        + "    topics: [b, c]\n    replication_policy: identity\n",
        "12: flows[1].replication_policy: ",
        ("for ever",),
    ),
    "active/active in one of two flows": (
        GOOD + "    replication_policy: identity\n    active_active: true\n"
        "  - {source: backup, target: primary, replication_policy: identity}\n",
        "9: flows[1].replication_policy: ",
        ("would go round for ever", "or active_active: true in all of them"),
    ),
    "active/active with other names": (
        GOOD + "    active_active: true\n",
        "7: flows[0].active_active: ",
        ("the names have to be the same on both sides: set replication_policy: identity",),
    ),
    "active/active with a policy of one's own": (
        GOOD + f"    replication_policy: {OWN['replication_policy']}\n    active_active: true\n",
        "8: flows[0].active_active: ",
        ("set replication_policy: identity, no other one",),
    ),
    "active/active with a template": (
        GOOD + "    remote_topic: 'x.{topic}'\n    active_active: true\n",
        "8: flows[0].active_active: ",
        ("set replication_policy: identity, no other one",),
    ),
    "active/active with a transform": (
        GOOD + "    replication_policy: identity\n    active_active: true\n    transform: shop.masked\n",
        "9: flows[0].transform: ",
        ("could take away the header",),
    ),
    "active/active with a topic's transform": (
        GOOD + "    replication_policy: identity\n    active_active: true\n"
        "    topic_settings: {a: {transform: none}, b: {transform: shop.masked}}\n    topics: [a, b]\n",
        "9: flows[0].topic_settings.b.transform: ",
        ("could take away the header",),
    ),
    "active/active with positions for MirrorMaker": (
        GOOD + "    replication_policy: identity\n    active_active: true\n    mirrormaker_offsets: {enabled: true}\n",
        "9: flows[0].mirrormaker_offsets.enabled: ",
        ("would send records back",),
    ),
    "active/active that undoes configurations": (
        GOOD + "    replication_policy: identity\n    active_active: true\n"
        "  - {source: backup, target: primary, replication_policy: identity, active_active: true}\n",
        "9: flows[1].sync_topic_configs: ",
        ("here and in flows[0] topic configurations would be copied in a cycle",),
    ),
    "identity round three clusters": (
        GOOD.replace("flows:", "  third: {bootstrap.servers: c}\nflows:")
        + "    replication_policy: identity\n"
        + "  - {source: third, target: primary, replication_policy: identity}\n"
        + "  - {source: backup, target: third, replication_policy: identity, topics: [a]}\n",
        "10: flows[2].replication_policy: ",
        ("here and in flows[0], flows[1] records would go round for ever: a would come back as a",),
    ),
    "identity one way and default the other": (
        GOOD + OPPOSITE + "    replication_policy: identity\n",
        "9: flows[1].replication_policy: ",
        ("flows[0]", "topic would come back as primary.topic", "use default in all of them"),
    ),
    "default with another separator": (
        GOOD + OPPOSITE + "    separator: _\n",
        "7: flows[1].replication_policy: ",
        ("for ever", "topic would come back as primary.backup_topic", "with one separator"),
    ),
    "a template without {source} in both directions": (
        GOOD + "    remote_topic: 'eu-{topic}'\n" + OPPOSITE + "    remote_topic: 'us-{topic}'\n",
        "10: flows[1].remote_topic: ",
        ("for ever: topic would come back as eu-us-topic", "one template with {source}"),
    ),
    "two templates with {source}": (
        GOOD + "    remote_topic: '{topic}-from-{source}'\n" + OPPOSITE,
        "8: flows[1].replication_policy: ",
        ("for ever",),
    ),
    "a template and identity": (
        GOOD + "    replication_policy: identity\n    remote_topic: '{source}-{topic}'\n",
        "8: flows[0].remote_topic: ",
        ("by this and by replication_policy: identity, too", "leave one of the two out"),
    ),
    "a template without {topic}": (
        GOOD + "    remote_topic: orders\n",
        '7: flows[0].remote_topic: bad template "orders": ',
        ("{topic} must stand in it once",),
    ),
    "a template with another placeholder": (
        GOOD + "    remote_topic: '{target}.{topic}'\n",
        "7: flows[0].remote_topic: ",
        ('there is no placeholder "{target}", but {source} and {topic}',),
    ),
    "a template with illegal characters": (
        GOOD + "    remote_topic: '{source}/{topic}'\n",
        "7: flows[0].remote_topic: ",
        ("letters, digits, '.', '_' and '-'",),
    ),
    "a template of internal names": (
        GOOD + "    remote_topic: '{source}.{topic}.internal'\n",
        "7: flows[0].remote_topic: no topic can be named like this: ",
        ("of an internal one",),
    ),
    "a template that is too long": (
        GOOD + f"    remote_topic: '{'x' * 245}{{topic}}'\n",
        "7: flows[0].remote_topic: no topic can be named like this: ",
        ("more than 249 characters",),
    ),
    "a name that the template makes too long": (
        GOOD + f"    remote_topic: 'a-{{topic}}'\n    topics: [b, {'x' * 248}]\n",
        "8: flows[0].topics[1]: ",
        ("never copied", "more than 249 characters"),
    ),
    "settings of a topic that nothing matches": (
        GOOD + "    topics: [a]\n    topic_settings:\n      b: {start: latest}\n",
        "9: flows[0].topic_settings.b: ",
        ('"b" is never copied: nothing in topics matches it',),
    ),
    "settings of a topic that is excluded": (
        GOOD + "    exclude: [b]\n    topic_settings:\n      b: {start: latest}\n",
        "9: flows[0].topic_settings.b: ",
        ('"b" is never copied: "b" in exclude matches it',),
    ),
    "settings of what is no topic": (
        GOOD + "    topic_settings:\n      'b.*': {start: latest}\n",
        "8: flows[0].topic_settings.b.…: ",
        ("a topic's name must have 1 to 249 letters",),
    ),
    "an unknown setting of a topic": (
        GOOD + "    topic_settings:\n      b:\n        exclude: [x]\n",
        "9: flows[0].topic_settings.b.exclude: ",
        ("unknown key", "allowed: remote_topic, start, on_data_loss, on_poison_record, throttle, transform"),
    ),
    "a transform without a module": (
        GOOD + "    transform: masked\n",
        "7: flows[0].transform: ",
        ("must be the dotted path of a callable", "or null"),
    ),
    "a transform with no name": (
        GOOD + "    transform: shop.2masked\n",
        "7: flows[0].transform: ",
        ("must be the dotted path of a callable", "or null"),
    ),
    "a transform that is a keyword": (
        GOOD + "    transform: shop.class.f\n",
        "7: flows[0].transform: ",
        ("must be the dotted path of a callable", "or null"),
    ),
    "no transform, in a word": (
        GOOD + "    transform: none\n",
        "7: flows[0].transform: ",
        ("must be the dotted path of a callable", "or null"),
    ),
    "a bad transform of a topic": (
        GOOD + "    topic_settings:\n      b: {transform: /shop.py}\n",
        "8: flows[0].topic_settings.b.transform: ",
        ("must be a dotted path, e.g. shop.transforms.masked, none (records are copied as they are), or null",),
    ),
    "a bad policy of a topic": (
        GOOD + "    topic_settings:\n      b: {on_data_loss: dead_letter}\n",
        "8: flows[0].topic_settings.b.on_data_loss: ",
        ("must be fail, skip or null",),
    ),
    "a bad start of a topic": (
        GOOD + "    topic_settings:\n      b: {start: never}\n",
        "8: flows[0].topic_settings.b.start: ",
        ("must be as the flow's start, or null",),
    ),
    "an own name that is none": (
        GOOD + "    topic_settings:\n      b: {remote_topic: 'eu-{topic}'}\n",
        "8: flows[0].topic_settings.b.remote_topic: ",
        ("a topic's name must have 1 to 249 letters",),
    ),
    "an own name of an internal topic": (
        GOOD + "    topics: [b]\n    topic_settings:\n      b: {remote_topic: mirror-control.primary.internal}\n",
        "9: flows[0].topic_settings.b.remote_topic: ",
        ("b can't be copied", "of an internal one"),
    ),
    "an own name of heartbeats": (
        GOOD + "    heartbeats: {enabled: true}\n    topic_settings:\n      heartbeats: {remote_topic: b}\n",
        "9: flows[0].topic_settings.heartbeats.remote_topic: ",
        ("heartbeats have MirrorMaker's name",),
    ),
    "an own name of the canary's topic": (
        GOOD
        + "    canary: {enabled: true}\n    topic_settings:\n      mirror-canary.primary.internal: {remote_topic: b}\n",
        "9: flows[0].topic_settings.mirror-canary.primary.internal.remote_topic: ",
        ("the canary's topic has the same name on both sides; take this out",),
    ),
    "settings of the canary's topic of a flow without one": (
        GOOD + "    topic_settings:\n      mirror-canary.primary.internal: {on_data_loss: fail}\n",
        "8: flows[0].topic_settings.mirror-canary.primary.internal: ",
        ("is never copied: internal: the name",),
    ),
    "a canary that is too rare": (
        GOOD + "    canary: {enabled: true, interval: 2m}\n",
        "7: flows[0].canary.interval: ",
        ("1s to 1m",),
    ),
    "an own name twice": (
        GOOD + "    topic_settings:\n      a: {remote_topic: c}\n      b: {remote_topic: c}\n",
        "9: flows[0].topic_settings.b.remote_topic: ",
        ("a has the remote topic c, too; give each topic another one",),
    ),
    "an own name that another topic has by the policy": (
        GOOD + "    topics: [a, b]\n    topic_settings:\n      b: {remote_topic: primary.a}\n",
        "9: flows[0].topic_settings.b.remote_topic: ",
        ("a has the remote topic primary.a, too",),
    ),
    "two topics that take each other's name": (
        GOOD
        + "    topics: [a]\n    replication_policy: identity\n    topic_settings:\n      a: {remote_topic: b}\n"
        + OPPOSITE
        + "    topics: [b]\n    replication_policy: identity\n    topic_settings:\n      b: {remote_topic: a}\n",
        "14: flows[1].replication_policy: ",
        ("b would come back as b",),
    ),
    "two aliases of one target": (
        GOOD.replace("flows:", "  again: {bootstrap.servers: 'x, localhost:9093'}\nflows:")
        + "  - {source: primary, target: again, group: other}\n",
        "8: flows[1].target: ",
        ("flows[0] has the same source, and its target backup is the same cluster", "allowed once"),
    ),
    "two aliases of one source, with identity": (
        GOOD.replace("flows:", "  again: {bootstrap.servers: 'x, localhost:9092'}\nflows:")
        + "    replication_policy: identity\n    topics: [a, b]\n"
        + "  - {source: again, target: backup, replication_policy: identity, topics: ['b+']}\n",
        "10: flows[1].topics: ",
        ("flows[0] copies b from the same cluster to the same topic of the same target",),
    ),
    "two sources with a topic of one name, with identity": (
        GOOD.replace("flows:", "  third: {bootstrap.servers: 'x:9092'}\nflows:")
        + "    replication_policy: identity\n    topics: [a, b]\n"
        + "  - {source: third, target: backup, replication_policy: identity, topics: ['b', 'c.*']}\n",
        "10: flows[1].topics: ",
        ("flows[0] writes to b of the same target, too; only one flow may write to a topic",),
    ),
    "separator": (GOOD + "    separator: /\n", "7: flows[0].separator: ", ("letters, digits", 'not "/"')),
    "separator empty": (GOOD + '    separator: ""\n', "7: flows[0].separator: ", ("letters, digits",)),
    "start without zone": (
        GOOD + "    start: 2024-01-31 12:00:00\n",
        '7: flows[0].start: "2024-01-31 12:00:00" has no time zone',
        ("e.g. 2025-01-31T12:00:00Z",),
    ),
    "start is a date": (GOOD + "    start: 2024-01-31\n", "7: flows[0].start: ", ("has no time zone",)),
    "start is no time": (GOOD + "    start: 2024-13-31T00:00:00Z\n", "7: flows[0].start: ", ("earliest, latest",)),
    "start before 1970": (GOOD + "    start: 1969-01-01T00:00:00Z\n", "7: flows[0].start: ", ("from 1970 on",)),
    "policy": (
        GOOD + "    replication_policy: x\n",
        "7: flows[0].replication_policy: ",
        ("default, identity, or the path of a Python class",),
    ),
    "policy that does not exist": (
        GOOD + "    replication_policy: no_such_module.Policy\n",
        "7: flows[0].replication_policy: no_such_module.Policy can't be used: there is no module no_such_module",
        ("PYTHONPATH",),
    ),
    "policy that is no policy": (
        GOOD + "    replication_policy: collections.Counter\n",
        "7: flows[0].replication_policy: collections.Counter can't be used: it has no method format_remote_topic",
        ("topic_source", "upstream_topic", "is_internal_topic"),
    ),
    "policy that fails for a topic of that name": (
        GOOD + f"    replication_policy: {OWN['replication_policy']}\n    topics: [orders, wrong, same1]\n",
        '8: flows[0].topics[1]: "wrong" is never copied: the replication policy tests.unit.test_naming.Dashes fails',
        ("KeyError at test_naming.py",),
    ),
    "policy that gives a name that another topic has": (
        GOOD
        + f"    replication_policy: {OWN['replication_policy']}\n    topics: [same1, orders]\n"
        + "    topic_settings: {orders: {remote_topic: same}}\n",
        "9: flows[0].topic_settings.orders.remote_topic: same1 has the remote topic same, too",
        ("give each topic another one",),
    ),
    "remote topic of another topic with settings": (
        GOOD + "    topic_settings:\n      c: {remote_topic: primary.b}\n      b: {start: latest}\n",
        "8: flows[0].topic_settings.c.remote_topic: b has the remote topic primary.b, too",
        ("give each topic another one",),
    ),
    "policy and template": (
        GOOD + "    replication_policy: tests.unit.test_own_policy.Dashes\n    remote_topic: 'x.{topic}'\n",
        "8: flows[0].remote_topic: ",
        ("can't be named by this and by replication_policy: tests.unit.test_own_policy.Dashes", "leave one"),
    ),
    "data_path": (
        GOOD + "    data_path: batches\n",
        "7: flows[0].data_path: ",
        ("auto or records",),
    ),
    "compression": (
        GOOD + "    compression: lzma\n",
        "7: flows[0].compression: ",
        ("none, gzip, snappy, lz4 or zstd",),
    ),
    "replication factor": (
        GOOD + "    replication_factor: 0\n",
        "7: flows[0].replication_factor: ",
        ("-1", "from 1 to"),
    ),
    "tasks": (GOOD + "    tasks_max: 0\n", "7: flows[0].tasks_max: ", ("from 1 to 10000, or null",)),
    "group empty": (GOOD + '    group: ""\n', "7: flows[0].group: ", ("1 to 249 characters",)),
    "group blank": (GOOD + '    group: " g"\n', "7: flows[0].group: ", ("blank at its beginning",)),
    "group with NUL": (GOOD + '    group: "g\\0h"\n', "7: flows[0].group: ", ("the value holds a NUL",)),
    "group too long": (GOOD + f"    group: {'g' * 250}\n", "7: flows[0].group: ", ("1 to 249 characters",)),
    "lag": (GOOD + "    offset_lag_max: -1\n", "7: flows[0].offset_lag_max: ", ("from 0 to",)),
    "refresh too often": (
        GOOD + "    refresh_topics_interval: 999ms\n",
        "7: flows[0].refresh_topics_interval: ",
        ("from 1s to 24h", 'not "999ms"'),
    ),
    "unit of time": (
        GOOD + "    transaction_timeout: 1 day\n",
        "7: flows[0].transaction_timeout: ",
        ("from 1s to 15m, such as 500ms, 10s, 5m or 1h", 'not "1 day"'),
    ),
    "transaction too long": (
        GOOD + "    transaction_timeout: 16m\n",
        "7: flows[0].transaction_timeout: ",
        ("from 1s to 15m",),
    ),
    "batch of no bytes": (GOOD + "    batch_max_bytes: 0\n", "7: flows[0].batch_max_bytes: ", ("from 1 to 1GiB",)),
    "unit of size": (GOOD + "    batch_max_bytes: 1MIB\n", "7: flows[0].batch_max_bytes: ", ("64KiB, 16MiB or 10MB",)),
    "throttle of nothing": (GOOD + "    throttle: 0\n", "7: flows[0].throttle: ", ("from 1KB to 100GB", "or null")),
    "throttle too high": (GOOD + "    throttle: 101GB\n", "7: flows[0].throttle: ", ("from 1KB to 100GB",)),
    "unit of throttle": (GOOD + "    throttle: 5MB/s\n", "7: flows[0].throttle: ", ("10MB or 64MiB", 'not "5MB/s"')),
    "throttle of a topic": (
        GOOD + "    topic_settings:\n      b: {throttle: none}\n",
        "8: flows[0].topic_settings.b.throttle: ",
        ("a size per second from 1KB to 100GB", "or null", 'not "none"'),
    ),
    "batch of no records": (GOOD + "    batch_max_records: 0\n", "7: flows[0].batch_max_records: ", ("from 1 to",)),
    "master empty": (GOOD + 'spark: {master: ""}\n', "7: spark.master: ", ("local[*]", "spark://host:7077")),
    "spark property is a list": (
        GOOD + "spark: {conf: {spark.a: [1]}}\n",
        "7: spark.conf.spark.a: ",
        ("a single value: text, a number, true or false",),
    ),
    "spark property that mirror keeps": (
        GOOD + "spark: {conf: {spark.speculation: true}}\n",
        "7: spark.conf.spark.speculation: mirror keeps this false, because ",
        ("a second copy of a task", "remove it"),
    ),
    "Spark's logs of slow events": (
        GOOD + "spark: {conf: {spark.scheduler.listenerbus.logSlowEvent: true}}\n",
        "7: spark.conf.spark.scheduler.listenerbus.logSlowEvent: mirror keeps this false, because ",
        ("unhidden", "remove it"),
    ),
    "master among Spark's properties": (
        GOOD + "spark: {conf: {spark.master: yarn}}\n",
        "7: spark.conf.spark.master: ",
        ('the key "master" of "spark"',),
    ),
    "log level": (GOOD + "log: {level: loud}\n", "7: log.level: ", ("debug, info, warning or error", 'not "loud"')),
    "log format": (GOOD + "log: {format: xml}\n", "7: log.format: ", ("text or json",)),
    "drain": (GOOD + "drain_timeout: forever\n", "7: drain_timeout: ", ("from 0s to 1h",)),
    "unknown property": (
        cluster("client.id: a", "sasl.pasword: b"),
        "5: clusters.primary.sasl.pasword: unknown property",
        ('did you mean "sasl.password"', "CONFIGURATION.md"),
    ),
    "unknown property for consumers": (
        cluster("consumer:", "  fetch.min.byte: 1"),
        "5: clusters.primary.consumer.fetch.min.byte: unknown property",
        ('"fetch.min.bytes"',),
    ),
    "unknown property for producers": (
        cluster("producer: {zzz: 1}"),
        "4: clusters.primary.producer.zzz: unknown property",
        ("librdkafka's names",),
    ),
    "property of Python only": (
        cluster("logger: a"),
        "4: clusters.primary.logger: unknown property",
        ("librdkafka's names",),
    ),
    "callback": (cluster("error_cb: a"), "4: clusters.primary.error_cb: librdkafka refuses", ("callable",)),
    "property without value": (cluster("client.id:"), "4: clusters.primary.client.id: ", ("a single value",)),
    "property is a list": (cluster("client.id: [a]"), "4: clusters.primary.client.id: ", ("a single value",)),
    "consumer section is text": (cluster("consumer: a"), "4: clusters.primary.consumer: ", ("a mapping, e.g. {",)),
    "yes is not true": (
        cluster("socket.keepalive.enable: yes"),
        "4: clusters.primary.socket.keepalive.enable: ",
        ("true or false",),
    ),
    "property of the wrong kind": (
        cluster("security.protocol: SSLX"),
        "4: clusters.primary.security.protocol: ",
        ('Invalid value "SSLX"', "CONFIGURATION.md"),
    ),
    "property out of range": (
        cluster("producer:", "  message.max.bytes: 1"),
        "5: clusters.primary.producer.message.max.bytes: ",
        ("allowed range 1000..1000000000",),
    ),
    "properties don't go together": (
        cluster("security.protocol: SASL_PLAINTEXT", "sasl.mechanisms: PLAIN", "sasl.username: a"),
        "6: clusters.primary.sasl.username: ",
        ("sasl.username and sasl.password must be set",),
    ),
    "no such file": (
        cluster("security.protocol: SSL", "ssl.ca.location: /nowhere/ca.pem"),
        "5: clusters.primary.ssl.ca.location: can't be read: No such file or directory",
        (),
    ),
    "no such file, with tokens": (
        cluster(*OIDC, "sasl.oauthbearer.client.secret: hunter2", "ssl.ca.location: /nowhere/ca.pem"),
        "10: clusters.primary.ssl.ca.location: can't be read: No such file or directory",
        (),
    ),
    "a file that is no certificate": (
        cluster("security.protocol: SSL", "ssl.ca.location: /etc/passwd"),
        "5: clusters.primary.ssl.ca.location: librdkafka: ssl.ca.location failed",
        (),
    ),
    "a key of OIDC is missing": (
        cluster(*OIDC),
        "6: clusters.primary.sasl.oauthbearer.method: librdkafka: `sasl.oauthbearer.client.secret` is mandatory when",
        ("`sasl.oauthbearer.method=oidc` is set",),
    ),
    "a login without a mechanism": (
        cluster("security.protocol: SASL_SSL", "sasl.username: a", "sasl.password: hunter2"),
        "4: clusters.primary.security.protocol: needs a mechanism; set sasl.mechanisms, e.g. PLAIN",
        (),
    ),
    "no source of tokens": (
        cluster("security.protocol: sasl_ssl", "sasl.mechanisms: OAUTHBEARER"),
        "5: clusters.primary.sasl.mechanisms: OAUTHBEARER needs tokens: set token_provider, or",
        ("sasl.oauthbearer.method: oidc",),
    ),
    "a server of the web": (
        GOOD.replace("localhost:9093", "http://localhost:9093"),
        "3: clusters.backup.bootstrap.servers: must be a comma-separated list of host:port",
        (),
    ),
    "a server of another protocol": (
        GOOD.replace("localhost:9093", "a:1,SASL_SSL://localhost:9093"),
        "3: clusters.backup.bootstrap.servers: what stands before :// is not the cluster's security.protocol",
        ("leave it out",),
    ),
    "against our defaults": (
        cluster("reconnect.backoff.ms: 5000"),
        "4: clusters.primary.reconnect.backoff.ms: ",
        ("`reconnect.backoff.max.ms` must be >= `reconnect.backoff.ms`",),
    ),
    "Java's password": (
        cluster("sasl.jaas.config: 'username=a password=b;'"),
        "4: clusters.primary.sasl.jaas.config: Java's name; librdkafka's names are used",
        ("sasl.username and sasl.password",),
    ),
    "Java's trust store": (
        cluster("ssl.truststore.location: a.jks"),
        "4: clusters.primary.ssl.truststore.location: Java's name",
        ("ssl.ca.location",),
    ),
    "brokers by their other name": (
        cluster("metadata.broker.list: localhost:1"),
        "4: clusters.primary.metadata.broker.list: ",
        ("bootstrap.servers of the cluster itself",),
    ),
    "brokers for consumers only": (
        cluster("consumer: {bootstrap.servers: localhost:1}"),
        "4: clusters.primary.consumer.bootstrap.servers: ",
        ("of the cluster itself",),
    ),
    "variable not set": (
        cluster("sasl.password: ${env:NOT_SET}"),
        "4: clusters.primary.sasl.password: environment variable NOT_SET is not set",
        (),
    ),
    "variable not set for a number": (
        GOOD + "http: {port: '${env:NOT_SET}'}\n",
        "7: http.port: environment variable NOT_SET is not set",
        (),
    ),
    "file not there": (
        cluster("sasl.password: ${file:/nowhere/x}"),
        "4: clusters.primary.sasl.password: file /nowhere/x can't be read: No such file or directory",
        (),
    ),
    "unknown provider": (
        cluster("client.id: ${vault:a}"),
        '4: clusters.primary.client.id: unknown provider "vault"; ',
        ("${env:NAME}", "${file:/path}", "$${"),
    ),
    "malformed reference": (
        cluster("client.id: '${env:NAME'"),
        "4: clusters.primary.client.id: malformed reference; ",
        ("${env:NAME}", "$${"),
    ),
}


@pytest.mark.parametrize(("text", "place", "words"), BAD.values(), ids=BAD)
def test_a_problem_says_where_what_and_what_is_allowed(
    tmp_path: Path, text: str, place: str, words: tuple[str, ...]
) -> None:
    problems = refused(tmp_path, text)
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"config.yaml:{place}")
    for word in words:
        assert word in problems[0]
    assert "\n" not in problems[0]


def test_all_problems_are_told_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = """\
clusters:
  primary: {bootstrap.servers: "localhost:9092", sasl.pasword: a}
  backup: {client.id: "${env:NO}"}
flows:
  - {source: primary, target: backup, topics: ["(", ")"], start: never}
  - {source: primary, target: backup}
  - {source: backup, target: backup, tasks_max: x}
http: {prot: 1}
log: {level: a, level: info}
"""
    places = [problem.split(": ")[0:2] for problem in refused(tmp_path, text)]
    assert places == [
        ["config.yaml:2", "clusters.primary.sasl.pasword"],
        ["config.yaml:3", "clusters.backup.client.id"],
        ["config.yaml:3", "clusters.backup.bootstrap.servers"],
        ["config.yaml:5", "flows[0].topics[0]"],
        ["config.yaml:5", "flows[0].topics[1]"],
        ["config.yaml:5", "flows[0].start"],
        ["config.yaml:6", "flows[1]"],
        ["config.yaml:7", "flows[2].tasks_max"],
        ["config.yaml:7", "flows[2].target"],
        ["config.yaml:8", "http.prot"],
        ["config.yaml:9", "log.level"],
    ]


def test_clusters_without_brokers_are_not_taken_for_the_same(tmp_path: Path) -> None:
    problems = refused(tmp_path, "clusters:\n  primary: {}\n  backup: {}\n" + FLOW)
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["config.yaml:2", "clusters.primary.bootstrap.servers"],
        ["config.yaml:3", "clusters.backup.bootstrap.servers"],
    ]


def test_a_shown_value_is_short_and_harmless_to_a_terminal(tmp_path: Path) -> None:
    problems = refused(tmp_path, GOOD + f'    compression: "\\e[31m\\n{"x" * 1000}"\n')
    assert problems == [
        f'config.yaml:7: flows[0].compression: must be none, gzip, snappy, lz4 or zstd, not "?[31m {"x" * 54}"'
    ]


def test_a_variable_of_another_encoding_is_refused_unless_a_later_file_wins(tmp_path: Path) -> None:
    text = cluster("sasl.password: ${env:PASSWORD}")
    (problem,) = refused(tmp_path, text, PASSWORD=os.fsdecode(b"Hunt\xfcr"))
    assert problem.startswith("config.yaml:4: clusters.primary.sasl.password: the value holds a NUL, or what is not")
    assert "Hunt" not in problem
    later = tmp_path / "later.yaml"
    later.write_text("clusters: {primary: {sasl.password: other}}")
    load([tmp_path / "config.yaml", later], {"PASSWORD": "\udcfc"})


def test_an_error_of_the_whole_file_is_explained() -> None:
    with pytest.raises(ValidationError) as caught:
        config_model.RootModel.model_validate({"\ud800": 1})
    (problem,) = map(Explainer(lambda _: False), caught.value.errors())
    assert problem.location == () and "a valid string" in problem.text


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff" + GOOD) == read(tmp_path, GOOD)


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "none.yaml", "can't be read: No such file or directory"),
        (tmp_path, "can't be read: Is a directory"),
        (Path("a\0b"), "can't be read: embedded null byte"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(path, {})
        assert len(caught.value.problems) == 1
        assert caught.value.problems[0].endswith(words)
        assert caught.value.exit_code == 2


def test_a_secret_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x" * (2**20 + 1))
    (problem,) = refused(tmp_path, cluster("sasl.password: ${file:secret}"))
    assert problem == (
        "config.yaml:4: clusters.primary.sasl.password: file secret can't be read: larger than 1,048,576 bytes"
    )


def test_nobody_waits_for_the_writer_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (problem,) = refused(tmp_path, cluster("sasl.password: ${file:pipe}"))
    assert problem.endswith("file pipe can't be read: not a regular file")
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "link").symlink_to("secret")
    assert (
        read(tmp_path, cluster("sasl.password: ${file:link}")).flows[0].source.properties["sasl.password"] == "hunter2"
    )


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"# one\n# two\nlog: \xff\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert caught.value.problems == [f"{path}:3: not UTF-8 text"]


def test_defaults(tmp_path: Path) -> None:
    loaded = read(tmp_path, GOOD)
    flow = loaded.flows[0]
    assert dataclasses.asdict(flow) == {
        "source": {
            "alias": "primary",
            "properties": {"bootstrap.servers": "localhost:9092"},
            "consumer": {},
            "producer": {},
            "files": {},
        },
        "target": {
            "alias": "backup",
            "properties": {"bootstrap.servers": "localhost:9093"},
            "consumer": {},
            "producer": {},
            "files": {},
        },
        "group": "mirror-primary-backup",
        "topics": (".*",),
        "exclude": (r".*[\-\.]internal", r".*\.replica", "__.*"),
        "replication_policy": "default",
        "separator": ".",
        "remote_topic": None,
        "start": "earliest",
        "replication_factor": -1,
        "internal_replication_factor": -1,
        "refresh_topics_interval": 10.0,
        "tasks_max": None,
        "offset_lag_max": 100,
        "compression": "none",
        "data_path": "auto",
        "batch_max_records": 20_000,
        "batch_max_bytes": 16 * 1024 * 1024,
        "transaction_linger_max": 0.005,
        "transaction_timeout": 60.0,
        "throttle": None,
        "transaction_threads": 8,
        "producers_max": 256,
        "producer_idle_timeout": 300.0,
        "open_transaction_warn_after": 300.0,
        "exactly_once": True,
        "append_to_existing": False,
        "active_active": False,
        "accept_log_append_time": False,
        "on_data_loss": "fail",
        "on_poison_record": "fail",
        "transform": None,
        "sync_topic_configs": True,
        "sync_topic_configs_interval": 600.0,
        "exclude_configs": (),
        "use_defaults_from": "target",
        "sync_acls": False,
        "sync_acls_interval": 600.0,
        "topic_settings": {},
        "groups": {
            "sync": False,
            "checkpoints": True,
            "include": (".*",),
            "exclude": ("console-consumer-.*", "connect-.*", "__.*"),
            "interval": 60.0,
        },
        "heartbeats": {"enabled": False, "interval": 1.0},
        "canary": {"enabled": False, "interval": 10.0},
        "mirrormaker_offsets": {"enabled": False, "topic": None, "connector": "MirrorSourceConnector"},
    }
    assert loaded.spark == service_settings.Spark(master="local[*]", conf={})
    assert loaded.http == service_settings.Http(host="0.0.0.0", port=9464)
    assert loaded.log == service_settings.Log(level="info", format="text")
    assert loaded.drain_timeout == 10.0


def test_the_example_has_every_key_at_its_default(tmp_path: Path) -> None:
    example = load(EXAMPLE, {})
    plain = read(tmp_path, GOOD)
    flow = dataclasses.replace(example.flows[0], source=plain.flows[0].source, target=plain.flows[0].target)
    assert flow == plain.flows[0]
    assert (example.http, example.log, example.drain_timeout) == (plain.http, plain.log, plain.drain_timeout)
    assert example.flows[0].source.consumer == {"fetch.min.bytes": "1"}
    assert example.spark.conf == {"spark.ui.enabled": "false"}


def test_the_example_has_every_field_of_the_model() -> None:
    tree = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    flow = tree["flows"][0]
    parts: list[tuple[type[Any], dict[str, Any]]] = [
        (config_model.RootModel, tree),
        (config_model.ClusterModel, tree["clusters"]["primary"]),
        (flow_model.FlowModel, tree["flows"][0]),
        (config_model.SparkModel, tree["spark"]),
        (config_model.HttpModel, tree["http"]),
        (config_model.LogModel, tree["log"]),
        (flow_model.GroupsModel, flow["groups"]),
        (flow_model.HeartbeatsModel, flow["heartbeats"]),
        (flow_model.CanaryModel, flow["canary"]),
        (flow_model.MirrorMakerOffsetsModel, flow["mirrormaker_offsets"]),
        (config_model.MetricsModel, tree["metrics"]),
        (config_model.OtlpModel, tree["metrics"]["otlp"]),
    ]
    defined = {**vars(config_model), **vars(flow_model)}
    models = {model for model in defined.values() if isinstance(model, type) and issubclass(model, BaseModel)}
    parents = {each for model in models for each in model.__bases__}
    # Of topic_settings, the example says in a comment what they are: keys of the flow.
    left = models - parents - {model for model, _ in parts}
    assert left == {flow_model.TopicSettingsModel}
    for model, written in parts:
        assert {field.alias or name for name, field in model.model_fields.items()} <= set(written), model


def test_every_place_in_the_file_has_words_for_what_is_allowed() -> None:
    def places(node: Any) -> Iterator[dict[str, Any]]:
        if isinstance(node, dict):
            for key in ("properties", "$defs"):
                for name, each in node.get(key, {}).items():
                    if key == "properties":
                        yield {"name": name, **each}
                    yield from places(each)
            for key in ("items", "additionalProperties"):
                if isinstance(node.get(key), dict):
                    yield {"name": key, **node[key]}
                    yield from places(node[key])

    found = list(places(json_schema()))
    assert len(found) > 40
    assert [place for place in found if "allowed" not in place and "$ref" not in place] == []


def test_json_schema_is_json_and_takes_durations_as_text() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert set(schema["required"]) == {"clusters", "flows"}
    assert "string" in schema["properties"]["drain_timeout"]["type"]


def test_a_long_socket_timeout_is_cut_to_the_transactions(tmp_path: Path) -> None:
    (flow,) = read(tmp_path, GOOD.replace('"localhost:9093"', '"localhost:9093", socket.timeout.ms: 120000')).flows
    properties = transactional_properties(flow, "any")
    assert properties["socket.timeout.ms"] == properties["transaction.timeout.ms"] - 100


def test_scalars_become_librdkafka_text_as_they_are_written(tmp_path: Path) -> None:
    text = cluster(
        "socket.keepalive.enable: true",
        "allow.auto.create.topics: False",
        "sasl.password: 0123",
        "sasl.username: 1e5",
        "client.id: 1.50",
        "client.rack: 2024-01-31",
        "consumer: {fetch.min.bytes: 1}",
        "producer: {linger.ms: 0.5}",
    )
    source = read(tmp_path, text).flows[0].source
    assert source.properties == {
        "bootstrap.servers": "localhost:9092",
        "socket.keepalive.enable": "true",
        "allow.auto.create.topics": "False",
        "sasl.password": "0123",
        "sasl.username": "1e5",
        "client.id": "1.50",
        "client.rack": "2024-01-31",
    }
    assert source.consumer == {"fetch.min.bytes": "1"}
    assert source.producer == {"linger.ms": "0.5"}


def test_a_text_may_look_like_a_boolean(tmp_path: Path) -> None:
    flow = read(
        tmp_path, cluster("sasl.password: TRUE") + "    topics: [True, FALSE, t]\n    exactly_once: FALSE\n"
    ).flows[0]
    assert (flow.topics, flow.exactly_once) == (("True", "FALSE", "t"), False)
    assert flow.source.properties["sasl.password"] == "TRUE"


@pytest.mark.parametrize("written", ["true", "True", "TRUE", '"true"'])
def test_booleans_are_written_in_any_case(tmp_path: Path, written: str) -> None:
    assert read(tmp_path, GOOD + f"    append_to_existing: {written}\n").flows[0].append_to_existing is True


@pytest.mark.parametrize(
    "properties",
    [
        ("bootstrap.servers: 'ssl://localhost:1'", "security.protocol: SSL"),
        (
            "bootstrap.servers: localhost:1",
            "security.protocol: SASL_SSL",
            "sasl.mechanisms: OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt: true",
        ),
        ("bootstrap.servers: localhost:1", "sasl.mechanisms: OAUTHBEARER", "ssl.ca.location: /nowhere/ca.pem"),
        ("bootstrap.servers: localhost:1", "security.protocol: SSL", "ssl.ca.location: probe"),
    ],
    ids=["protocol of the cluster", "unsigned tokens", "unused properties", "certificates of the system"],
)
def test_how_a_cluster_may_be_reached(tmp_path: Path, properties: tuple[str, ...]) -> None:
    written = cluster(*properties).replace("    bootstrap.servers: localhost:9092\n", "")
    assert read(tmp_path, written).flows[0].source.alias == "primary"


def test_merge_keys_share_properties(tmp_path: Path) -> None:
    text = """\
clusters:
  primary: &common
    bootstrap.servers: localhost:9092
    client.id: a
    client.rack: r
  backup:
    <<: *common
    bootstrap.servers: localhost:9093
    client.id: b
"""
    target = read(tmp_path, text + FLOW).flows[0].target
    assert target.properties == {"bootstrap.servers": "localhost:9093", "client.id": "b", "client.rack": "r"}
    problems = refused(tmp_path, text.replace("client.rack", "client.rick") + FLOW)
    assert [problem.split(": ")[:2] for problem in problems] == [
        ["config.yaml:5", "clusters.primary.client.rick"],
        ["config.yaml:5", "clusters.backup.client.rick"],
    ]


def test_one_flow_a_thousand_times_is_refused_in_a_line_for_each(tmp_path: Path) -> None:
    again = GOOD.replace("  - source", "  - &flow\n    source") + "  - *flow\n" * 999
    assert len(refused(tmp_path, again)) == 999


def test_more_flows_than_can_be_compared_are_refused(tmp_path: Path) -> None:
    again = GOOD.replace("  - source", "  - &flow\n    source") + "  - *flow\n" * 30_000
    assert any("flows: must be a list of flows" in line and "1000 at most" in line for line in refused(tmp_path, again))


def test_an_anchor_may_be_used_ten_thousands_of_times(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(15)]
    clusters = "".join(f"  {name}: {{bootstrap.servers: '{name}:9092'}}\n" for name in names)
    shared = f"topics: [{', '.join(f't{number}' for number in range(100))}]"
    ends = [f"source: {one}, target: {other}" for one in names for other in names if one != other]
    flows = [f"  - {{<<: *shared, {both}}}\n" for both in ends[1:]]
    whole = f"clusters:\n{clusters}flows:\n  - &shared {{{ends[0]}, {shared}}}\n{''.join(flows)}"
    loaded = read(tmp_path, whole)
    assert len(loaded.flows) == 210 and all(len(flow.topics) == 100 for flow in loaded.flows)


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"], ids=["lists", "merges"])
def test_what_stands_for_a_billion_values_is_refused_before_it_is_made(tmp_path: Path, form: str) -> None:
    """A process with little memory loads it: without a limit it would take all that the machine has."""
    file = tmp_path / "config.yaml"
    file.write_text(laughs(form), encoding="utf-8")
    command = f"ulimit -v {2**20}; exec {sys.executable} -m mirror validate -c {file}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 2 and "config.yaml:8: aliases repeat" in ended.stderr, ended.stderr[-500:]


def test_of_several_merged_mappings_the_first_wins(tmp_path: Path) -> None:
    text = """\
clusters:
  primary: &one {bootstrap.servers: localhost:1, client.id: one}
  third: &three {bootstrap.servers: localhost:3, client.id: three, client.rack: r}
  backup: {<<: [*one, *three], bootstrap.servers: localhost:2}
"""
    target = read(tmp_path, text + FLOW).flows[0].target
    assert target.properties == {"bootstrap.servers": "localhost:2", "client.id": "one", "client.rack": "r"}


@pytest.mark.parametrize(
    "merged",
    ["<<: *one, sasl.password: plain", "<<: [{sasl.password: plain}, *one]", "<<: {<<: *one, sasl.password: plain}"],
)
def test_nothing_is_left_of_what_a_merge_replaces(tmp_path: Path, merged: str) -> None:
    """Else the password of one cluster would be sent to the brokers of another one."""
    (tmp_path / "secret").write_text("hunter2")
    text = f"""\
clusters:
  primary: &one
    bootstrap.servers: localhost:1
    sasl.password: ${{file:secret}}
  backup: {{bootstrap.servers: localhost:2, {merged}}}
"""
    flow = read(tmp_path, text + FLOW).flows[0]
    assert list(flow.source.files) == ["sasl.password"] and flow.source.properties["sasl.password"] == "hunter2"
    assert not flow.target.files and flow.target.properties["sasl.password"] == "plain"
    problems = refused(tmp_path, text.replace("file:secret", "env:NO") + FLOW)
    assert [problem.split(": ")[1] for problem in problems] == ["clusters.primary.sasl.password"]


def test_what_a_merge_replaces_counts_as_repeated(tmp_path: Path) -> None:
    keys = "".join(f"  k{number}: 1\n" for number in range(400))
    merges = ", ".join(["*a"] * 400)
    (problem, *_) = refused(tmp_path, f"x: &a\n{keys}y: {{<<: [{merges}]}}\n" + GOOD)
    assert "aliases repeat" in problem


@pytest.mark.parametrize(
    "line",
    [
        "transactional.id: mine",
        "enable.idempotence: false",
        "enable.auto.commit: true",
        "enable.auto.offset.store: true",
        "isolation.level: read_uncommitted",
        "auto.offset.reset: latest",
        "group.id: mine",
        "acks: 1",
        "transaction.timeout.ms: 1000",
        "message.timeout.ms: 900000",
        "enable.partition.eof: false",
    ],
)
def test_what_exactly_once_overrides_is_no_problem(tmp_path: Path, line: str) -> None:
    key, value = line.split(": ")
    assert read(tmp_path, cluster(line)).flows[0].source.properties[key] == value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0", 0),
        ("10", 10),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("5ms", 0.005),
        ("9ms", 0.009),
        ("10s", 10),
        ("5m", 300),
        ("1h", 3600),
    ],
)
def test_durations_are_seconds(written: str, expected: float) -> None:
    assert seconds(written) == expected


@pytest.mark.parametrize(
    "written", ["", "s", "-1s", "1d", "1S", "1e3", "nan", "inf", "1h30m", "1  s", "None", "1.s", "\u0661s"]
)
def test_what_is_no_duration(written: str) -> None:
    with pytest.raises(ValueError):
        seconds(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1", 1),
        ("512B", 512),
        ("10KB", 10_000),
        ("10MB", 10_000_000),
        ("1GB", 10**9),
        ("64KiB", 65_536),
        ("16MiB", 16_777_216),
        ("1GiB", 1_073_741_824),
        ("0.5MiB", 524_288),
    ],
)
def test_sizes_are_bytes(written: str, expected: int) -> None:
    assert size(written) == expected


@pytest.mark.parametrize("written", ["", "MiB", "-1", "1mib", "1TiB", "1s", "None"])
def test_what_is_no_size(written: str) -> None:
    with pytest.raises(ValueError):
        size(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("0", 0),
        ("1706702400123", 1_706_702_400_123),
        ("2024-01-31T12:00:00Z", 1_706_702_400_000),
        ("2024-01-31t12:00:00z", 1_706_702_400_000),
        ("2024-01-31 13:00:00+01:00", 1_706_702_400_000),
        ("2024-01-31T12:00:00.123Z", 1_706_702_400_123),
    ],
)
def test_start(tmp_path: Path, written: str, expected: str | int) -> None:
    assert start(written) == expected
    assert read(tmp_path, f"{GOOD}    start: {written}\n").flows[0].start == expected


def test_settings_of_single_topics_reach_the_flow(tmp_path: Path) -> None:
    text = GOOD + (
        "    start: latest\n    topic_settings:\n"
        "      a: {remote_topic: eu-a, start: 2024-01-31T12:00:00Z, on_data_loss: skip}\n"
        "      b: {on_poison_record: dead_letter, start: null, throttle: 64KiB}\n      c: {start: 0}\n"
        "flow_defaults: {topic_settings: {b: {start: earliest}, c: {on_data_loss: skip}}}\n"
    )
    flow = read(tmp_path, text).flows[0]
    assert flow.topic_settings["a"] == settings.TopicSettings("eu-a", 1_706_702_400_000, "skip", None, None)
    of = {name: flow.of_topic(name) for name in "abcd"}
    assert [of[name].start for name in "abcd"] == [1_706_702_400_000, "latest", 0, "latest"]
    assert [of[name].on_data_loss for name in "abcd"] == ["skip", "fail", "skip", "fail"]
    assert [of[name].on_poison_record for name in "abcd"] == ["fail", "dead_letter", "fail", "fail"]
    assert flow.topic_settings["b"].throttle == 65_536
    assert of["d"] is flow and flow.dead_letter_topic in flow.own_topics
    assert pickle.loads(pickle.dumps(flow)) == flow


def test_numbers_and_units_reach_the_settings(tmp_path: Path) -> None:
    flow = read(
        tmp_path,
        GOOD
        + "    refresh_topics_interval: 1m\n    transaction_linger_max: 20ms\n    batch_max_bytes: 1MiB\n"
        + "    tasks_max: 3\n    replication_factor: 3\n    topics: [123, 'a.*']\n    group: g\n",
    ).flows[0]
    assert (flow.refresh_topics_interval, flow.transaction_linger_max, flow.batch_max_bytes) == (60, 0.02, 2**20)
    assert (flow.tasks_max, flow.replication_factor, flow.topics, flow.group) == (3, 3, ("123", "a.*"), "g")


def test_identity_both_ways_is_fine_for_lists_without_common_names(tmp_path: Path) -> None:
    one = "    replication_policy: identity\n    topics: [a]\n"
    other = "    replication_policy: identity\n    topics: [b]\n"
    assert len(read(tmp_path, GOOD + one + OPPOSITE + other).flows) == 2
    assert "for ever" in refused(tmp_path, GOOD + one + OPPOSITE + other.replace("[b]", "['a+']"))[0]


def test_a_cycle_is_fine_if_all_its_flows_are_active_active(tmp_path: Path) -> None:
    mark = "replication_policy: identity, active_active: true"
    defaults = f"flow_defaults: {{{mark}}}\nflows:"
    two = GOOD.replace("flows:", defaults) + OPPOSITE + "    sync_topic_configs: false\n"
    assert [flow.active_active for flow in read(tmp_path, two).flows] == [True, True]
    ring = GOOD.replace("flows:", f"  third: {{bootstrap.servers: c}}\n{defaults}")
    ring += "  - {source: third, target: primary, sync_topic_configs: false}\n  - {source: backup, target: third}\n"
    assert len(read(tmp_path, ring).flows) == 3
    open_ = ring.replace("third, target: primary", "third, target: primary, active_active: false")
    assert "here and in flows[0], flows[1] records would go round" in refused(tmp_path, open_)[0]
    aside = ring + "  - {source: primary, target: third, active_active: false}\n"
    assert "here and in flows[1] records would go round" in refused(tmp_path, aside)[0]


def test_identity_round_three_clusters_is_fine_without_a_name_in_common(tmp_path: Path) -> None:
    text = GOOD.replace("flows:", "  third: {bootstrap.servers: c}\nflows:")
    text += "    replication_policy: identity\n    topics: [a, b]\n"
    text += "  - {source: third, target: primary, replication_policy: identity, topics: [a, c]}\n"
    text += "  - {source: backup, target: third, replication_policy: identity, topics: [b, c]}\n"
    assert len(read(tmp_path, text).flows) == 3


def test_a_name_that_only_looks_like_what_is_left_out(tmp_path: Path) -> None:
    topics = "    topics: [backup, backups.orders, orders.backup, internal, _schemas, '.*internal', 'backup\\..*']\n"
    assert len(read(tmp_path, GOOD + topics).flows) == 1
    identity = "    replication_policy: identity\n    topics: [backup.orders]\n"
    assert len(read(tmp_path, GOOD + identity).flows) == 1


def test_identity_is_no_loop_with_what_ends_it(tmp_path: Path) -> None:
    """One way alone, or with an exclude of what came from the target."""
    identity = "    replication_policy: identity\n"
    assert len(read(tmp_path, GOOD + identity).flows) == 1
    assert len(read(tmp_path, GOOD + identity + "    exclude: ['backup\\..*']\n" + OPPOSITE).flows) == 2


def test_many_flows_between_all_of_many_clusters(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(7)]
    clusters = "".join(f"  {name}: {{bootstrap.servers: {name}}}\n" for name in names)
    flows = "".join(f"  - {{source: {a}, target: {b}}}\n" for a in names for b in names if a != b)
    assert len(read(tmp_path, f"clusters:\n{clusters}flows:\n{flows}").flows) == 42


def test_servers_are_compared_in_one_form() -> None:
    assert servers("A, SSL://b:1,[::1]:2") == {"a:9092", "b:1", "[::1]:2"}


def test_references(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from file\n", encoding="utf-8")
    (tmp_path / "absolute").write_text("absolute", encoding="utf-8")
    text = cluster(
        "sasl.username: ${env:USER_NAME}",
        "sasl.password: ${file:secret}",
        f"ssl.key.password: ${{file:{tmp_path}/absolute}}",
        'client.id: "a-${env:ONE}-${env:ONE}${env:EMPTY}-$${env:ONE}"',
        "client.rack: ${env:NESTED}",
    )
    text += "    tasks_max: ${env:TASKS}\n    topics: ['${env:ONE}.*']\nspark: {conf: {spark.a: '${env:ONE}'}}\n"
    loaded = read(tmp_path, text, USER_NAME="0123", ONE="1", EMPTY="", TASKS="7", NESTED="${env:ONE}")
    properties = loaded.flows[0].source.properties
    assert properties["sasl.username"] == "0123"
    assert properties["sasl.password"] == "from file"
    assert properties["ssl.key.password"] == "absolute"
    assert properties["client.id"] == "a-1-1-${env:ONE}"
    assert properties["client.rack"] == "${env:ONE}"
    assert loaded.flows[0].tasks_max == 7
    assert loaded.flows[0].topics == ("1.*",)
    assert loaded.spark.conf == {"spark.a": "1"}


def test_the_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_TEST_GROUP", "from-environment")
    path = tmp_path / "config.yaml"
    path.write_text(GOOD + "    group: ${env:MIRROR_TEST_GROUP}\n", encoding="utf-8")
    assert load(path).flows[0].group == "from-environment"


SECRET = "hunter2-(very-secret"

REF = "${env:HIDDEN}"

ENVIRON = {
    "HIDDEN": SECRET,
    "TIME": "1999-01-01",
    "NUMBER": "-00424242",
    "CYCLE": "backup.hunter2",
    "PATTERN": "hunter.*",
    "EXCLUDED": "orders|hunter2",
    "NAME": "hunter2",
    "TEMPLATE": "{topic}.hunter2",
}
# Every one of these is refused.
LEAKS = {
    "unknown property": cluster(f"sasl.pasword: {SECRET}"),
    "unknown property by reference": cluster(f"client.idd: {REF}"),
    "refused property by reference": cluster(f"security.protocol: {REF}"),
    "refused number by reference": cluster("socket.timeout.ms: ${env:NUMBER}"),
    "refused property with a secret's name": cluster(f"sasl.oauthbearer.method: {SECRET}"),
    "Java's password": cluster(f"sasl.jaas.config: 'org.x required password=\"{SECRET}\";'"),
    "key that is not PEM": cluster("security.protocol: SSL", f"ssl.key.pem: {SECRET}"),
    "file of a key store": cluster("security.protocol: SSL", f"ssl.keystore.location: /{SECRET}"),
    "certificate file by reference": cluster("security.protocol: SSL", f"ssl.certificate.location: /x/{REF}"),
    "mechanism by reference": cluster("security.protocol: SASL_SSL", f"sasl.mechanisms: {REF}"),
    "space forgotten": cluster(f"consumer: {{sasl.password:{SECRET}}}"),
    "unknown alias": cluster("sasl.password: *hunter2"),
    "unknown alias that begins like a mark": cluster("sasl.password: *-hunter2"),
    "tag": cluster("sasl.password: !hunter2 x"),
    "tag with a handle": cluster("sasl.password: !hunter2!x"),
    "provider": cluster("sasl.password: a${hunter:2}"),
    "duplicate": cluster(f"sasl.password: {SECRET}", f"sasl.password: {SECRET}"),
    "list": cluster(f"sasl.password: ['{SECRET}']"),
    "text in place of a cluster": f"clusters: {{primary: '{SECRET}'}}\n{FLOW}",
    "brokers": GOOD.replace("localhost:9092", f"{REF}:x"),
    "regular expression": GOOD + f"    topics: ['{REF}']\n",
    "topics": GOOD + f"    topics: {REF}\n",
    "start": GOOD + f"    start: {REF}\n",
    "start without zone": GOOD + "    start: ${env:TIME}\n",
    "group": GOOD + f"    group: {REF}\n  - {{source: primary, target: backup, group: '{REF}'}}\n",
    "undefined cluster": GOOD.replace("target: backup", f"target: {REF}"),
    "port": GOOD + f"http: {{port: '{REF}'}}\n",
    "level": GOOD + f"log: {{level: '{REF}'}}\n",
    "token in the path of an endpoint that is no URL": GOOD + f"metrics: {{otlp: {{endpoint: 'h/{SECRET}'}}}}\n",
    "spark": GOOD + f"spark: {{conf: '{SECRET}'}}\n",
    "topic that is never copied": GOOD + "    topics: ['${env:CYCLE}']\n",
    "entry that excludes a topic": GOOD + "    topics: [orders]\n    exclude: ['${env:EXCLUDED}']\n",
    "settings of an excluded topic": GOOD
    + "    exclude: ['${env:EXCLUDED}']\n    topic_settings: {orders: {start: latest}}\n",
    "topic of two flows": GOOD.replace("flows:", "  third: {bootstrap.servers: 'x:9092'}\nflows:")
    + "    replication_policy: identity\n    topics: ['${env:NAME}']\n"
    + "  - {source: third, target: backup, replication_policy: identity, topics: ['${env:NAME}']}\n",
    "topic of a cycle": GOOD
    + "    replication_policy: identity\n    topics: ['${env:PATTERN}']\n"
    + OPPOSITE
    + "    replication_policy: identity\n    topics: ['${env:PATTERN}']\n",
    "template of a cycle": GOOD
    + "    remote_topic: '${env:TEMPLATE}'\n"
    + OPPOSITE
    + "    remote_topic: '${env:TEMPLATE}'\n",
    "remote topic of two topics": GOOD
    + "    topic_settings: {a: {remote_topic: '${env:NAME}'}, b: {remote_topic: '${env:NAME}'}}\n",
    "URL in place of a section": GOOD + "metrics: {otlp: 'https://u:hunter2@h/v1'}\n",
    "login in place of a section": GOOD + "http: 'u:hunter2'\n",
    "login in place of a user": GOOD + "http: {username: 'u:hunter2', password: x}\n",
    "master": GOOD + f"spark: {{master: ['{REF}']}}\n",
}


@pytest.mark.parametrize("text", LEAKS.values(), ids=LEAKS)
def test_no_secret_is_in_a_problem(tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path, ENVIRON)
    # What a traceback would print counts too.
    told = "".join((*caught.value.problems, repr(caught.value.__context__), *capfd.readouterr()))
    for part in ("hunter", "very-secret", "1999", "4242"):
        assert part not in told.replace(str(tmp_path), "")


def test_a_long_secret_that_librdkafka_cuts_is_not_shown(tmp_path: Path) -> None:
    text = cluster("security.protocol: sasl_plaintext", "sasl.mechanisms: ${env:LONG}")
    problems = refused(tmp_path, text, LONG="0123456789" * 200)
    assert len(problems) == 1
    assert problems[0].startswith("config.yaml:")
    assert "01234" not in problems[0]


def test_repr_shows_no_properties(tmp_path: Path) -> None:
    text = cluster("sasl.password: hunter2", "consumer: {client.id: hunter2}", "producer: {client.id: hunter2}")
    loaded = read(tmp_path, text + "spark: {conf: {spark.a: hunter2}}\n")
    assert loaded.spark.conf == {"spark.a": "hunter2"}
    assert loaded.flows[0].source.producer == {"client.id": "hunter2"}
    assert "hunter2" not in repr(loaded)
    assert "hunter2" not in str(loaded)


def test_settings_travel_to_tasks(tmp_path: Path) -> None:
    loaded = read(tmp_path, GOOD)
    assert pickle.loads(pickle.dumps(loaded)) == loaded


def test_nothing_is_connected_printed_or_left_open(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    threads = psutil.Process().num_threads()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        properties = (
            "debug: all",
            "security.protocol: SASL_PLAINTEXT",
            "sasl.mechanisms: OAUTHBEARER",
            "sasl.oauthbearer.method: oidc",
            f"sasl.oauthbearer.token.endpoint.url: http://{address}/token",
            "sasl.oauthbearer.client.id: a",
            "sasl.oauthbearer.client.secret: b",
        )
        read(tmp_path, cluster(*properties).replace("localhost:9092", address))
        with pytest.raises(TimeoutError):
            server.accept()
    assert psutil.Process().num_threads() <= threads
    assert "".join(capfd.readouterr()) == ""


def test_a_topic_that_a_policy_of_the_users_own_does_not_name_may_have_settings(tmp_path: Path) -> None:
    own = f"    replication_policy: {OWN['replication_policy']}\n"
    (flow,) = read(tmp_path, f"{GOOD}{own}    topic_settings: {{wrong: {{start: latest}}}}\n").flows
    assert flow.replication_policy == OWN["replication_policy"] and flow.topic_settings["wrong"].start == "latest"


def test_canaries_of_opposite_flows_with_the_same_names_make_no_cycle(tmp_path: Path) -> None:
    same = "    replication_policy: identity\n    canary: {enabled: true}\n"
    both = read(tmp_path, f"{GOOD}{same}    topics: [a]\n{OPPOSITE}{same}    topics: [b]\n").flows
    assert [each.canary_topic for each in both] == ["mirror-canary.primary.internal", "mirror-canary.backup.internal"]
