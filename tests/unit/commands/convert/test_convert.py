"""Every form of input: our file loads, every key is accounted for once, and no secret is shown."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror.cli import cli, exit_code
from mirror.commands.convert import reading
from mirror.commands.convert.command import Conversion, convert, shown
from mirror.commands.convert.properties import parse
from mirror.config.load import load
from mirror.errors import ConfigError
from mirror.service_settings import Settings
from tests.unit.commands.convert.inputs import ALL, CONNECTORS, FILE, NEW_RESOURCE, OLD_RESOURCE

KAFKA = "org.apache.kafka.connect.mirror"
SHORT = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"


def converted(folder: Path, text: str, name: str = "mm2.properties") -> Conversion:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return convert(path)


def loaded(folder: Path, found: Conversion) -> Settings:
    """Our file as our loader reads it, with all variables set, and without what is in files that are not here."""
    lines = [line for line in found.text.splitlines() if not any(f"{each}:" in line for each in ELSEWHERE)]
    path = folder / "mirror.yaml"
    path.write_text("\n".join(lines).replace("${file:/mnt/secrets/key}", "x"))
    return load(path, {each.name: "secret" for each in found.variables} | {"BACKUP_PW": "secret"})


ELSEWHERE = ("ssl.ca.location", "ssl.keystore.location", "ssl.keystore.password", "ssl.ca.pem", "ssl.key.pem",
             "ssl.certificate.pem")  # fmt: skip


def fates(found: Conversion) -> dict[str, str]:
    return {row.key: row.fate for row in found.rows}


def why(found: Conversion, key: str) -> str:
    (row,) = [row for row in found.rows if row.key == key]
    return row.why


def refused(folder: Path, text: str, name: str = "mm2.properties") -> str:
    with pytest.raises(ConfigError) as caught:
        converted(folder, text, name)
    (line,) = caught.value.problems
    assert line.startswith(f"{folder / name}") and len(line.splitlines()) == 1
    return line.removeprefix(f"{folder / name}")


@pytest.mark.parametrize("name", ALL)
def test_our_file_loads(tmp_path: Path, name: str) -> None:
    found = converted(tmp_path, ALL[name], name)
    assert found.problems == ()
    assert len(loaded(tmp_path, found).flows) == 1


@pytest.mark.parametrize("name", ALL)
def test_no_secret_is_shown(tmp_path: Path, name: str) -> None:
    found = converted(tmp_path, ALL[name], name)
    for text in (found.text, shown(found), json.dumps(found.as_dict())):
        assert "SECRET" not in text.replace("CLIENT_SECRET", "")
    for each in found.variables:
        assert f"${{env:{each.name}}}" in found.text and each.meaning in shown(found)


@pytest.mark.parametrize("name", ALL)
def test_the_file_is_yaml_for_everybody_and_says_where_each_value_comes_from(tmp_path: Path, name: str) -> None:
    found = converted(tmp_path, ALL[name], name)
    tree = yaml.safe_load(found.text)
    assert set(tree) == {"clusters", "flows"}
    keys = {row.key for row in found.rows}
    for line in found.text.partition("clusters:")[2].splitlines():
        value, comment, origin = line.partition(" # ")
        if ": " in value and "source:" not in value and "target:" not in value:
            assert comment and (origin in keys or origin.startswith("after keytool") or "keytool" in line), line


def test_each_key_of_a_file_is_accounted_for_once(tmp_path: Path) -> None:
    found = converted(tmp_path, FILE)
    assert sorted(row.key for row in found.rows) == sorted({entry.key for entry in parse(FILE)})
    assert all(row.line for row in found.rows)


def test_each_key_of_connectors_is_accounted_for_once(tmp_path: Path) -> None:
    found = converted(tmp_path, CONNECTORS, "mm2.json")
    expected = []
    for index, connector in enumerate(json.loads(CONNECTORS)):
        expected += [f"[{index}].name", *(f"[{index}].config.{name}" for name in connector["config"])]
    assert sorted(row.key for row in found.rows) == sorted(expected)
    assert "earlier" in why(found, "[0].config.topics")


@pytest.mark.parametrize("text", [OLD_RESOURCE, NEW_RESOURCE])
def test_each_key_of_a_resource_is_accounted_for_once(tmp_path: Path, text: str) -> None:
    found = converted(tmp_path, text, "mm2.yaml")
    keys = [row.key for row in found.rows]
    assert len(keys) == len(set(keys))
    assert missing(yaml.safe_load(text), "", set(keys)) == []


def missing(value: Any, key: str, keys: set[str]) -> list[str]:
    """The leaves that neither have a row nor are within one."""
    if key in keys:
        return []
    if isinstance(value, dict) and value:
        return [each for name, inner in value.items() for each in missing(inner, f"{key}.{name}".lstrip("."), keys)]
    if isinstance(value, list) and value:
        return [each for index, inner in enumerate(value) for each in missing(inner, f"{key}[{index}]", keys)]
    return [key]


KEYS = st.sampled_from(
    [
        *("topics", "tasks.max", "security.protocol", "consumer.x", "a.consumer.fetch.min.bytes", "b.producer.acks"),
        *("a->b.offset.lag.max", "a->b.source.cluster.ssl.protocol", "b->a.topics", "x->y.topics", "a.", "a->b.", "->"),
        *("enabled", "name", "c.d", "a->b.producer.override.linger.ms", "a.ssl.key.password", "config.providers", ""),
        *("replication.policy.class", "offset.lag.max", "a.sasl.jaas.config", "b.admin.retries", "source.admin.x"),
    ]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(KEYS, st.sampled_from(["1", "true", "x", "SSL", "", "${env:X}", "a b: c # d", "${", "-1"])))
def test_each_key_is_accounted_for_once_whatever_the_file_has(tmp_path: Path, more: dict[str, str]) -> None:
    text = SHORT + "".join(f"{key.replace(' ', '')}={value}\n" for key, value in more.items() if key != "enabled")
    if more.get("topics") in ("", "${", "${env:X}"):
        assert "topics" in refused(tmp_path, text)
        return
    found = converted(tmp_path, text)
    assert sorted(row.key for row in found.rows) == sorted({entry.key for entry in parse(text)})
    assert all(row.ours or row.why for row in found.rows)
    assert all(row.ours for row in found.rows if row.fate in ("same", "renamed") and row.key != "config.providers")
    loaded(tmp_path, found) if not found.problems and "ssl" not in found.text.lower() else None


def test_what_a_file_becomes(tmp_path: Path) -> None:
    found = converted(tmp_path, FILE)
    (flow,) = loaded(tmp_path, found).flows
    assert flow.name == "primary->backup"
    assert flow.topics == (r"orders\..*", "payments")
    assert flow.exclude == (".*-test", r".*[\-\.]internal")
    assert (flow.start, flow.compression, flow.exactly_once, flow.separator) == ("latest", "lz4", True, "_")
    assert (flow.replication_factor, flow.internal_replication_factor, flow.offset_lag_max) == (3, 3, 10)
    assert (flow.refresh_topics_interval, flow.transaction_timeout) == (60.0, 30.0)
    assert flow.source.properties == {
        "bootstrap.servers": "p1:9092, p2:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "mm",
        "sasl.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert flow.source.consumer == {"fetch.wait.max.ms": "100", "client.rack": "r1", "fetch.min.bytes": "7"}
    assert flow.target.producer == {}
    assert "sasl.password: ${env:BACKUP_PW} #" in found.text
    assert [each.name for each in found.variables] == ["PRIMARY_SASL_PASSWORD", "PRIMARY_SSL_KEYSTORE_PASSWORD"]


def test_what_the_account_of_a_file_says(tmp_path: Path) -> None:
    found = converted(tmp_path, FILE)
    assert {key: fate for key, fate in fates(found).items() if fate in ("not possible", "not there yet")} == {
        "ssl.truststore.location": "not possible",
        "primary.admin.client.id": "not possible",
        "primary->nowhere.topics": "not possible",
        "transforms": "not possible",
        "transforms.a.type": "not possible",
        "my.password": "not possible",
    }
    assert "keytool -importkeystore" in why(found, "ssl.truststore.location")
    assert "# ssl.ca.location: ca.pem # after keytool" in found.text
    assert "primary->backup.offset.lag.max takes precedence" in why(found, "offset.lag.max")
    assert "line 44 does not count" in why(found, "tasks.max")
    assert "MirrorMaker ignores it" in why(found, "consumer.fetch.min.bytes")
    assert "MirrorMaker ignores it" in why(found, "primary.linger.ms")
    assert "no enabled flow" in why(found, "unused.bootstrap.servers")
    assert fates(found)["primary.sasl.jaas.config"] == "renamed"
    assert "PRIMARY_SASL_PASSWORD" in why(found, "primary.sasl.jaas.config")
    assert not found.defaults


def test_what_connectors_become(tmp_path: Path) -> None:
    found = converted(tmp_path, CONNECTORS, "mm2.json")
    (flow,) = loaded(tmp_path, found).flows
    assert (flow.topics, flow.replication_policy, flow.compression) == (("orders",), "identity", "zstd")
    assert (flow.on_poison_record, flow.exactly_once, flow.offset_lag_max) == ("skip", True, 10)
    assert "ssl.ca.location: /etc/ca.pem" in found.text
    assert "ssl.key.password: ${file:/mnt/secrets/key}" in found.text
    assert flow.target.properties["sasl.oauthbearer.method"] == "oidc"
    assert flow.target.properties["sasl.oauthbearer.client.id"] == "me"
    assert flow.source.consumer == {"fetch.min.bytes": "100000"}
    assert "has none" in why(found, "[1].config.consumer.fetch.min.bytes")


def test_a_connector_as_properties_or_as_rest_gives_it(tmp_path: Path) -> None:
    (one, *_) = json.loads(CONNECTORS)
    flat = "".join(f"{key}={value}\n" for key, value in one["config"].items())
    forms = [json.dumps(one), json.dumps(one["config"]), json.dumps({"source": {"info": one}})]
    texts = {converted(tmp_path, text, "mm2.json").text.partition("clusters:")[2].count(":") for text in forms}
    texts.add(converted(tmp_path, flat).text.partition("clusters:")[2].count(":"))
    assert len(texts) == 1


def test_what_a_resource_becomes(tmp_path: Path) -> None:
    found = converted(tmp_path, OLD_RESOURCE, "mm2.yaml")
    (flow,) = loaded(tmp_path, found).flows
    assert flow.name == "cluster-a->cluster-b"
    assert (flow.topics, flow.compression, flow.refresh_topics_interval) == (("orders|payments",), "lz4", 600.0)
    assert flow.source.properties == {
        "bootstrap.servers": "a-bootstrap:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "mirroring",
        "sasl.password": "secret",
    }
    assert flow.target.properties["security.protocol"] == "SSL"
    assert ("CLUSTER_A_SASL_PASSWORD", "the key password of the Kubernetes secret live-user") in found.variables
    assert "ssl.key.pem: ${env:CLUSTER_B_SSL_KEY_PEM}" in found.text
    assert [row.line for row in found.rows if row.key == "spec.mirrors[0].topicsPattern"] == [49]


def test_what_a_new_resource_becomes(tmp_path: Path) -> None:
    found = converted(tmp_path, NEW_RESOURCE, "mm2.yaml")
    (flow,) = loaded(tmp_path, found).flows
    assert (flow.name, flow.exclude) == ("a->b", (".*-test",))
    assert flow.target.properties["sasl.mechanisms"] == "PLAIN"
    assert flow.target.properties["security.protocol"] == "SASL_SSL"
    assert flow.source.properties["sasl.oauthbearer.token.endpoint.url"] == "https://id.example/token"
    assert fates(found)["spec.mirrors[0].source.authentication.accessToken.key"] == "not possible"
    assert fates(found)["spec.mirrors[0].sourceConnector.config.sync.topic.configs.enabled"] == "renamed"


@pytest.mark.parametrize(
    "more, key, fate, expected",
    [
        ("b.producer.compression.type=gzip", "b.producer.compression.type", "renamed", "compression: gzip"),
        ("b.producer.compression.type=zip", "b.producer.compression.type", "not possible", ""),
        ("a.consumer.fetch.min.bytes=many", "a.consumer.fetch.min.bytes", "not possible", ""),
        ("offset.lag.max=-5", "offset.lag.max", "not possible", ""),
        ("offset.lag.max=0", "offset.lag.max", "renamed", "offset_lag_max: 0"),
        ("refresh.topics.interval.seconds=99999999", "refresh.topics.interval.seconds", "not possible", ""),
        ("refresh.topics.enabled=false", "refresh.topics.enabled", "not possible", ""),
        ("replication.policy.class=x.Mine", "replication.policy.class", "not possible", ""),
        ("replication.policy.separator=", "replication.policy.separator", "not possible", ""),
        ("replication.policy.separator=-", "replication.policy.separator", "renamed", 'separator: "-"'),
        ("topics=a.b", "topics", "different", "topics: [a.b]"),
        ("topics=a.*|b", "topics", "same", 'topics: ["a.*|b"]'),
        ("topics.blacklist=x", "topics.blacklist", "renamed", "exclude: [x]"),
        ("topics.exclude=", "topics.exclude", "renamed", "exclude: []"),
        (f"topic.filter.class={KAFKA}.DefaultTopicFilter", "topic.filter.class", "not needed", ""),
        ("topic.filter.class=a.DefaultTopicFilter", "topic.filter.class", "not possible", ""),
        ("forwarding.admin.class=org.apache.kafka.clients.admin.ForwardingAdmin", "forwarding.admin.class",
         "not needed", ""),
        ("replication.policy.class=io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
         "replication.policy.class", "renamed", "replication_policy: identity"),
        ("replication.policy.class=com.acme.DefaultReplicationPolicy", "replication.policy.class", "not possible", ""),
        ("replication.policy.class=com.acme.IdentityReplicationPolicy", "replication.policy.class", "not possible", ""),
        ("topic.filter.class=a.Mine", "topic.filter.class", "not possible", ""),
        ("exactly.once.source.support=preparing", "exactly.once.source.support", "different", ""),
        ("offset-syncs.topic.location=source", "offset-syncs.topic.location", "different", ""),
        ("a.consumer.auto.offset.reset=none", "a.consumer.auto.offset.reset", "not possible", ""),
        ("a.sasl.mechanism=AWS_MSK_IAM", "a.sasl.mechanism", "different", "token_provider: mirror.msk_iam.token"),
        ("a.sasl.jaas.config=${file:/x:y}", "a.sasl.jaas.config", "not possible", ""),
        ("a.ssl.keystore.location=/x.jks", "a.ssl.keystore.location", "not possible", ""),
        ("a.ssl.keystore.location=/x.p12", "a.ssl.keystore.location", "same", "ssl.keystore.location: /x.p12"),
        ("a.ssl.cipher.suites=TLS_AES_128_GCM_SHA256", "a.ssl.cipher.suites", "not possible", ""),
        ("a.ssl.truststore.certificates=-----BEGIN X", "a.ssl.truststore.certificates", "renamed", "ssl.ca.pem: \"--"),
        ("a.consumer.receive.buffer.bytes=-1", "a.consumer.receive.buffer.bytes", "renamed", "buffer.bytes: 0"),
        ("a.consumer.unknown.thing=1", "a.consumer.unknown.thing", "not possible", ""),
        ("a.consumer.interceptor.classes=x", "a.consumer.interceptor.classes", "not possible", ""),
        ("a.producer.acks=1", "a.producer.acks", "not needed", ""),
        ("a->b.consumer.client.rack=x", "a->b.consumer.client.rack", "same", "client.rack: x"),
        ("a->b.source.cluster.client.id=x", "a->b.source.cluster.client.id", "not needed", ""),
        ("a->b.task.assigned.groups=x", "a->b.task.assigned.groups", "not needed", ""),
        ("a->b.fetch.min.bytes=1", "a->b.fetch.min.bytes", "not needed", ""),
        ("b.client.id=x", "b.client.id", "not needed", ""),
        ("task.shutdown.graceful.timeout.ms=1", "task.shutdown.graceful.timeout.ms", "not needed", ""),
    ],
)  # fmt: skip
def test_one_key(tmp_path: Path, more: str, key: str, fate: str, expected: str) -> None:
    found = converted(tmp_path, f"{SHORT}{more}\n")
    assert fates(found)[key] == fate, why(found, key)
    assert expected in found.text
    (row,) = [row for row in found.rows if row.key == key]
    assert row.why or fate in ("same", "renamed")
    assert bool(row.ours) == (fate in ("same", "renamed", "different") and bool(expected))


def test_a_flows_own_property_holds_for_the_cluster_and_that_is_said(tmp_path: Path) -> None:
    three = SHORT.replace("a,b", "a,b,c") + "c.bootstrap.servers=c:1\na->c.enabled=true\na->b.consumer.client.rack=x\n"
    found = converted(tmp_path, three)
    assert fates(found)["a->b.consumer.client.rack"] == "different"
    found = converted(tmp_path, f"{three}a->c.consumer.client.rack=y\n")
    assert sorted(fates(found)[f"a->{each}.consumer.client.rack"] for each in "bc") == ["different", "not possible"]


@pytest.mark.parametrize(
    "value, fate, written", [("_", "different", "_"), (".", "not needed", "."), ("/", "not needed", ".")]
)
def test_identity_needs_the_separator_for_heartbeats_and_internal_topics_only(
    tmp_path: Path, value: str, fate: str, written: str
) -> None:
    text = f"{SHORT}replication.policy.class={KAFKA}.IdentityReplicationPolicy\nreplication.policy.separator={value}\n"
    found = converted(tmp_path, text)
    (flow,) = loaded(tmp_path, found).flows
    assert (flow.separator, fates(found)["replication.policy.separator"]) == (written, fate)


@pytest.mark.parametrize(
    "line, said",
    [
        ("offset.storage.topic=x", "--offsets-topic x"),
        ("b.offset.storage.topic=x", "--offsets-topic x"),
        ("b.offset.storage.topic=mm2-offsets.a.internal", "knows this name"),
        ("b.group.id=x", "--worker-group x"),
        ("b.group.id=a-mm2", "knows this name"),
        ("a->b.offsets.storage.topic=x", "--offsets-topic x"),
    ],
)
def test_what_mirror_adopt_has_to_be_told_is_said(tmp_path: Path, line: str, said: str) -> None:
    key = line.partition("=")[0]
    found = converted(tmp_path, f"{SHORT}{line}\n")
    assert fates(found)[key] == "not needed" and why(found, key).endswith(said) and "mirror adopt" in why(found, key)


@pytest.mark.parametrize("key", ["a.group.id", "a.offset.storage.topic", "group.id"])
def test_what_mirrormaker_does_not_read_mirror_adopt_need_not_know(tmp_path: Path, key: str) -> None:
    """MirrorMaker's workers belong to the target, and it takes no group.id from the whole file."""
    assert "give it to" not in why(converted(tmp_path, f"{SHORT}{key}=x\n"), key)


def test_a_source_connectors_name_is_for_mirror_adopt(tmp_path: Path) -> None:
    found = converted(tmp_path, CONNECTORS, "mm2.json")
    for key in ("[0].name", "[0].config.name"):
        assert why(found, key).endswith("give it to mirror adopt: --connector source")
    assert "adopt" not in why(found, "[1].name")


def test_for_a_policy_of_the_users_own_the_ways_are_named(tmp_path: Path) -> None:
    said = why(converted(tmp_path, f"{SHORT}replication.policy.class=x.Mine\n"), "replication.policy.class")
    assert "the template remote_topic" in said and "Python, with its path as replication_policy" in said


@pytest.mark.parametrize("key", ["b.offset.flush.interval.ms", "a.offset.flush.timeout.ms", "b.topic.creation.enable"])
def test_what_mirrormaker_reads_for_its_workers_is_not_said_to_be_ignored(tmp_path: Path, key: str) -> None:
    found = converted(tmp_path, f"{SHORT}{key}=1\n")
    assert fates(found)[key] == "not needed" and "ignores" not in why(found, key)


def test_identitys_separator_is_not_that_of_a_class_of_the_users_own(tmp_path: Path) -> None:
    text = f"{SHORT}replication.policy.class=com.acme.IdentityReplicationPolicy\nreplication.policy.separator=_\n"
    assert fates(converted(tmp_path, text))["replication.policy.separator"] == "renamed"


def test_a_circle_is_told_beforehand(tmp_path: Path) -> None:
    text = f"{SHORT}b->a.enabled=true\nreplication.policy.class={KAFKA}.IdentityReplicationPolicy\n"
    found = converted(tmp_path, text)
    assert len(found.problems) == 1 and "go round" in found.problems[0] and not found.whole
    assert found.problems[0] in shown(found)


def test_the_account_steers_no_terminal(tmp_path: Path) -> None:
    odd = "x.PlainLoginModule required username='u' password='SECRET' 'odd\x1b'='x';"
    (one, *_) = json.loads(CONNECTORS)
    one["config"] |= {
        "target.cluster.sasl.mechanism": "PLAIN",
        "target.cluster.sasl.jaas.config": odd,
        "name": "\x1b[2J",
    }
    found = converted(tmp_path, json.dumps({"\x1b[2J": {"info": one}}), "mm2.json")
    assert "\x1b" in why(found, "\x1b[2J.info.config.name") and any("\x1b" in each.meaning for each in found.variables)
    assert "odd\x1b" in why(found, "\x1b[2J.info.config.target.cluster.sasl.jaas.config")
    assert shown(found).replace("\n", "").isprintable()


def test_variables_have_names_of_their_own(tmp_path: Path) -> None:
    text = "clusters=a.b,a-b,1\n" + "".join(
        f"{each}.bootstrap.servers=h{n}:1\n{each}.ssl.key.password=SECRET\n"
        for n, each in enumerate(["a.b", "a-b", "1"])
    )
    found = converted(tmp_path, f"{text}a.b->a-b.enabled=true\na.b->1.enabled=true\nssl.keystore.key=SECRET\n")
    names = [each.name for each in found.variables]
    assert sorted(names) == [
        "A_B_SSL_KEY_PASSWORD",
        "A_B_SSL_KEY_PASSWORD_2",
        "KAFKA_1_SSL_KEY_PASSWORD",
        "KAFKA_SSL_KEY_PEM",
    ]


BAD = [
    ("", "empty"),
    ("x = 1", "no key clusters"),
    ("clusters = a", "2 to 100 aliases"),
    ("clusters = " + ",".join(map(str, range(101))), "2 to 100 aliases"),
    ("clusters = a, b", "no flow is enabled: write a->b.enabled = true"),
    ("clusters = a, b\na->b.enabled=true", "cluster a has no bootstrap servers: write a.bootstrap.servers"),
    (SHORT.replace("a:1", "a b:1"), "a.bootstrap.servers: must be a comma-separated list"),
    (SHORT.replace("a,b", "a,b,c/d") + "a->c/d.enabled=true\nc/d.bootstrap.servers=c:1", 'alias "c/d"'),
    (SHORT + "\na.x=\\u12", "6: malformed"),
    (SHORT + "topics=x,(", '5: topics: "(" is no regular expression for Python: missing ), unterminated subpattern'),
    (SHORT + "topics=\\\\p{Alpha}+", "bad escape \\p at position 0; write a set of characters"),
    (SHORT + "topics=a\\\\Qb\\\\E", "bad escape \\Q at position 1; put a \\"),
    (SHORT + "topics=(?<n>a)", "at position 1; write (?:...)"),
    (SHORT + "topics=[a-z&&[^b]]", "set of characters within another at position"),
    (SHORT + "topics.exclude=a{1,3}", "splits the list at every comma"),
    (SHORT + "topics=a,${env:TOPICS}", "5: topics: \"${env:TOPICS}\": a reference can't stand for a list"),
    (SHORT + "topics=,", "an empty list copies nothing"),
    (SHORT + "topics=" + "a" * 5 + ",x" * 2 + "".join(f",t{n}" for n in range(10_001)), "more than 10,000 elements"),
    ("#" * (2**20 + 1), "larger than 1,048,576 bytes"),
    ("connector.class = x.FileStreamSource", "connector.class must be one of"),
    ("connector.class = MirrorCheckpointConnector", "only that one copies records"),
    ("connector.class = MirrorSourceConnector", "write source.cluster.bootstrap.servers"),
]  # fmt: skip
BAD_JSON = [
    ("{", "1: bad JSON"),
    ('{"a": }', "1: bad JSON"),
    ("[]", "1 to 1,000 connectors"),
    ("[1]", "[0]: not a connector"),
    ("{}", "connector.class must be"),
    ('{"config": 1}', "config must be an object"),
    ('{"connector.class": ["x"]}', "connector.class: must be a single value"),
    ("[" * 100_000, "nested too deeply"),
    ('{"connector.class": "MirrorSourceConnector", "source.cluster.alias": "target"}', "are the same"),
    ("\xff{", "no key clusters"),
]
HEAD = "kind: KafkaMirrorMaker2\n"
MIRRORS = "mirrors: [{sourceCluster: a, targetCluster: b}]"
BILLIONS = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi"))
BAD_YAML = [
    ("a: b", "not a resource of the kind KafkaMirrorMaker2"),
    (HEAD, "spec must be a mapping"),
    (f"{HEAD}spec: 1", "spec must be a mapping"),
    (f"{HEAD}spec: {{}}", "spec.mirrors must be a list of 1 to 1,000"),
    (f"{HEAD}spec: {{mirrors: 1}}", "spec.mirrors must be a list"),
    (f"{HEAD}spec: {{mirrors: [1]}}", "spec.mirrors[0] must be a mapping"),
    (f"{HEAD}spec: {{mirrors: [{{}}]}}", "needs a source and another target"),
    (f"{HEAD}spec: {{mirrors: [{{sourceCluster: a, targetCluster: b}}]}}", "names the cluster a, which is not there"),
    (f"{HEAD}spec: {{clusters: [1], mirrors: [1]}}", "spec.clusters[0] must be a mapping"),
    (f"{HEAD}spec: {{clusters: [{{x: 1}}], mirrors: [1]}}", "spec.clusters[0] needs an alias"),
    (f"{HEAD}spec: {{clusters: [{{alias: a, config: 1}}], {MIRRORS}}}", "config must be a mapping"),
    (f"{HEAD}spec: {{clusters: [{{alias: a, config: {{x: [1]}}}}], {MIRRORS}}}", "config.x: must be a single value"),
    (f"{HEAD}spec: [", "2: bad YAML"),
    (f"{HEAD}spec: 1\nspec: 2", "3: duplicate key"),
    (f"{HEAD}spec: !!python/object:os.system x", "unknown YAML tag"),
    (f"{HEAD}a: &a [1,2,3,4,5,6,7,8,9]\n{BILLIONS}", "aliases repeat"),
    (f"{HEAD}spec: " + "[" * 20_000, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize("text, said", BAD)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize("text, said", BAD_JSON)
def test_bad_json_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text, "mm2.json")


@pytest.mark.parametrize("text, said", BAD_YAML)
def test_bad_yaml_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text, "mm2.yaml")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"{", b"[{", b"kind: KafkaMirrorMaker2\nspec: ", SHORT.encode()]))
def test_no_input_is_too_odd(tmp_path: Path, data: bytes, begin: bytes) -> None:
    path = tmp_path / "input"
    path.write_bytes(begin + data)
    try:
        convert(path)
    except ConfigError as error:
        assert len(error.problems) == 1 and len(error.problems[0].splitlines()) == 1


def test_references_of_the_input_are_not_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL", "SECRET")
    text = NEW_RESOURCE.replace("clientId: me", "clientId: ${env:LOCAL}")
    path = tmp_path / "mm2.yaml"
    path.write_text(text)
    assert "SECRET" not in repr(reading.read(path))
    assert "sasl.oauthbearer.client.id: ${env:LOCAL}" in convert(path).text


class TestCommand:
    """The verb itself."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "mm2.properties"
        path.write_text(FILE)
        return path

    def run(self, *arguments: object) -> Any:
        return CliRunner().invoke(cli, ["convert", *map(str, arguments)])

    def test_yaml_to_stdout_and_account_to_stderr(self, path: Path) -> None:
        ended = self.run(path)
        assert ended.exit_code == 0
        assert ended.stdout == convert(path).text
        assert "transforms.a.type" in ended.stderr and "PRIMARY_SASL_PASSWORD" in ended.stderr

    def test_json_has_everything(self, path: Path) -> None:
        ended = self.run(path, "--json")
        found = json.loads(ended.stdout)
        assert ended.stderr == "" and not found["whole"]
        assert found["yaml"] == convert(path).text
        assert found["keys"][0] == {
            "key": "clusters", "line": 3, "fate": "same", "ours": "clusters", "why": ""
        }  # fmt: skip

    def test_strict(self, tmp_path: Path, path: Path) -> None:
        assert self.run(path, "--strict").exit_code == 1
        path.write_text(SHORT)
        assert self.run(path, "--strict").exit_code == 0

    def test_a_hyphen_is_stdout(self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert self.run(path, "-o", Path("-")).stdout == self.run(path).stdout
        assert not (tmp_path / "-").exists()

    def test_a_byte_order_mark_is_no_part_of_the_input(self, path: Path, tmp_path: Path) -> None:
        marked = tmp_path / "marked" / path.name
        marked.parent.mkdir()
        marked.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert self.run(marked).stdout == self.run(path).stdout

    def test_output_never_replaces_without_force(self, tmp_path: Path, path: Path) -> None:
        output = tmp_path / "mirror.yaml"
        assert self.run(path, "-o", output).exit_code == 0
        assert output.read_text() == convert(path).text
        output.write_text("mine")
        again = self.run(path, "-o", output)
        assert isinstance(again.exception, ConfigError) and "--force" in str(again.exception)
        assert output.read_text() == "mine"
        assert self.run(path, "-o", output, "--force").exit_code == 0
        assert output.read_text() != "mine"
        nowhere = self.run(path, "-o", tmp_path / "no" / "where")
        assert isinstance(nowhere.exception, ConfigError) and nowhere.exception.exit_code == 2

    def test_a_missing_file_is_exit_2(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        monkeypatch.setattr("sys.argv", ["mirror", "convert", str(tmp_path / "none")])
        assert exit_code() == 2
        assert "none: can't be read: No such file" in capsys.readouterr().err
