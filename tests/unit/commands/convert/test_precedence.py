"""Which of several keys counts, for which client, and for which flow the input says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror.commands.convert import scopes
from mirror.commands.convert.command import Conversion
from tests.unit.commands.convert.test_convert import SHORT, converted, fates, why
from tests.unit.commands.convert.test_strimzi import of, resource
from tests.unit.commands.convert.test_united import connector

BOTH = SHORT + "b->a.enabled=true\n"


def of_file(folder: Path, *lines: str, text: str = SHORT) -> Conversion:
    return converted(folder, text + "\n".join(lines) + "\n")


def cluster(found: Conversion, alias: str = "a") -> dict[str, Any]:
    """What our file has for a cluster, without its address."""
    tree: dict[str, Any] = yaml.safe_load(found.text)["clusters"][alias]
    return {name: value for name, value in tree.items() if name != "bootstrap.servers"}


def flow(found: Conversion) -> dict[str, Any]:
    """What our file has for the first flow, without its ends."""
    tree: dict[str, Any] = yaml.safe_load(found.text)["flows"][0]
    return {name: value for name, value in tree.items() if name not in ("source", "target")}


class TestOfAFile:
    """MirrorMaker makes source.consumer. of a cluster's consumer., and of the security of all its clients."""

    def test_a_clusters_consumer_wins_over_a_flows(self, tmp_path: Path) -> None:
        lines = ("a.consumer.auto.offset.reset=earliest", "a->b.consumer.auto.offset.reset=latest")
        found = of_file(tmp_path, *lines)
        assert flow(found) == {"start": "earliest"}
        assert why(found, "a->b.consumer.auto.offset.reset") == "a.consumer.auto.offset.reset takes precedence"
        found = of_file(tmp_path, "a.consumer.fetch.min.bytes=1", "a->b.consumer.fetch.min.bytes=2")
        assert cluster(found) == {"consumer": {"fetch.min.bytes": 1}}

    def test_a_flows_consumer_by_its_full_name_wins_over_all(self, tmp_path: Path) -> None:
        names = ("a.consumer", "a->b.source.consumer", "a->b.consumer")
        found = of_file(tmp_path, *(f"{name}.fetch.min.bytes={number}" for number, name in enumerate(names)))
        assert cluster(found) == {"consumer": {"fetch.min.bytes": 1}}
        assert why(found, "a->b.consumer.fetch.min.bytes").endswith("source.consumer.fetch.min.bytes takes precedence")

    def test_a_flows_consumer_counts_where_the_cluster_says_nothing(self, tmp_path: Path) -> None:
        found = of_file(tmp_path, "a->b.consumer.auto.offset.reset=latest", "a->b.consumer.ssl.key.password=x")
        assert flow(found) == {"start": "latest"}
        assert cluster(found)["consumer"] == {"ssl.key.password": "${env:A_CONSUMER_SSL_KEY_PASSWORD}"}

    @pytest.mark.parametrize(
        "above, below",
        [
            *((above, f"a->b.{below}") for above in ("a.", "") for below in ("consumer.", "source.cluster.")),
            ("b.", "a->b.target.cluster."),
            ("a.consumer.", "a->b.consumer."),
        ],
    )
    def test_a_flows_security_counts_only_if_there_is_no_other(self, tmp_path: Path, above: str, below: str) -> None:
        above, below = f"{above}security.protocol", f"{below}security.protocol"
        found = of_file(tmp_path, f"{below}=PLAINTEXT", f"{above}=SSL")
        assert "PLAINTEXT" not in found.text and "security.protocol: SSL" in found.text
        assert fates(found)[below] == "not needed" and why(found, below) == f"{above} takes precedence"

    def test_a_flows_security_of_one_client_counts_more_than_that_of_all(self, tmp_path: Path) -> None:
        lines = ("a->b.source.cluster.security.protocol=SSL", "a->b.consumer.security.protocol=PLAINTEXT")
        found = of_file(tmp_path, *lines)
        assert cluster(found) == {"security.protocol": "SSL", "consumer": {"security.protocol": "PLAINTEXT"}}

    def test_what_does_not_count_does_not_decide_about_others(self, tmp_path: Path) -> None:
        """The keystore is no PEM file, whatever the flow's own consumer would say of it."""
        lines = ("a.ssl.keystore.type=PKCS12", "a->b.consumer.ssl.keystore.type=PEM")
        found = of_file(tmp_path, *lines, "a->b.consumer.ssl.keystore.location=/x")
        assert cluster(found) == {"consumer": {"ssl.keystore.location": "/x"}}

    def test_admin_clients(self, tmp_path: Path) -> None:
        """A flow's admin. is for the clients of both clusters."""
        key = "a->b.admin.request.timeout.ms"
        lines = ("a.admin.request.timeout.ms=1", "b.admin.request.timeout.ms=2", f"{key}=3")
        assert why(of_file(tmp_path, *lines), key) == (
            "a.admin.request.timeout.ms takes precedence; b.admin.request.timeout.ms takes precedence"
        )
        for line in lines[:2]:
            assert fates(of_file(tmp_path, line, lines[2]))[key] == "not possible"
        found = of_file(tmp_path, "security.protocol=SSL", "a->b.admin.security.protocol=PLAINTEXT")
        assert why(found, "a->b.admin.security.protocol") == "security.protocol takes precedence"


class TestOfOthers:
    """Connect's connectors, and Strimzi's, which gives a cluster's security as source.cluster. only."""

    def test_a_connectors_consumer_wins_over_its_cluster(self, tmp_path: Path) -> None:
        more = {"source.cluster.security.protocol": "SSL", "consumer.security.protocol": "PLAINTEXT"}
        found = converted(tmp_path, json.dumps(connector() | more), "mm2.json")
        assert cluster(found) == {"security.protocol": "SSL", "consumer": {"security.protocol": "PLAINTEXT"}}

    def test_a_source_connectors_properties_win_over_the_cluster(self, tmp_path: Path) -> None:
        tree = resource(
            sourceConnector={"config": {"consumer.ssl.key.password": "x", "source.cluster.client.dns.lookup": "x"}}
        )
        tree["spec"]["mirrors"][0]["source"]["config"] = {"ssl.key.password": "y"}
        found = of(tmp_path, tree)
        assert list(cluster(found)) == ["ssl.key.password", "consumer"]


NOT_OF_RECORDS = [
    ("target.consumer.auto.offset.reset", "latest", scopes.SYNC_CONSUMER),
    ("target.producer.compression.type", "zstd", scopes.SYNC_PRODUCER),
    ("source.producer.compression.type", "zstd", scopes.SYNC_PRODUCER),
    ("producer.compression.type", "zstd", scopes.SYNC_PRODUCER),
    ("consumer.override.auto.offset.reset", "latest", scopes.OVERRIDE),
    ("admin.override.request.timeout.ms", "5", scopes.OVERRIDE),
]


@pytest.mark.parametrize("name, value, said", NOT_OF_RECORDS)
def test_a_client_that_does_not_copy_records(tmp_path: Path, name: str, value: str, said: str) -> None:
    others = ("b.producer.compression.type=gzip", "a.consumer.auto.offset.reset=earliest")
    found = of_file(tmp_path, f"a->b.{name}={value}", *others)
    assert flow(found) == {"compression": "gzip", "start": "earliest"}
    assert (fates(found)[f"a->b.{name}"], why(found, f"a->b.{name}")) == ("not needed", said)
    found = converted(tmp_path, json.dumps(connector() | {name: value}), "mm2.json")
    assert flow(found) == {} and (fates(found)[name], why(found, name)) == ("not needed", said)
    assert found.whole


@pytest.mark.parametrize("name", ["target.admin.request.timeout.ms", "source.admin.request.timeout.ms"])
def test_admin_clients_by_their_full_name(tmp_path: Path, name: str) -> None:
    found = of_file(tmp_path, "a.admin.request.timeout.ms=1", "b.admin.request.timeout.ms=1", f"a->b.{name}=2")
    assert fates(found)[f"a->b.{name}"] == "not possible"


class TestDefaults:
    """What MirrorMaker does for a flow of which the input says nothing."""

    @pytest.mark.parametrize(
        "key, value",
        [
            ("sync.topic.acls.enabled", "true"),
            ("replication.factor", "3"),
            ("offset-syncs.topic.location", "target"),
            ("emit.heartbeats.enabled", "true"),
        ],
    )
    def test_those_of_one_flow_are_told(self, tmp_path: Path, key: str, value: str) -> None:
        found = of_file(tmp_path, f"a->b.{key}={value}", text=BOTH)
        (row,) = [row for row in found.defaults if row.key == key]
        # The heartbeats that a->b writes are for b->a.
        flow = "a->b" if key == "emit.heartbeats.enabled" else "b->a"
        assert row.why.startswith(f"for {flow}: MirrorMaker's default is ")
        found = of_file(tmp_path, f"a->b.{key}={value}", f"b->a.{key}={value}", text=BOTH)
        assert key not in {row.key for row in found.defaults}

    def test_those_of_all_flows_are_told_without_their_names(self, tmp_path: Path) -> None:
        found = of_file(tmp_path, text=BOTH)
        assert all(row.why.startswith("MirrorMaker's default is ") for row in found.defaults) and found.defaults
        found = of_file(tmp_path, "replication.factor=3", text=BOTH)
        assert "replication.factor" not in {row.key for row in found.defaults}

    def test_of_many_flows_some_are_named(self, tmp_path: Path) -> None:
        aliases = "abcdef"
        text = f"clusters={','.join(aliases)}\n" + "".join(f"{each}.bootstrap.servers={each}:1\n" for each in aliases)
        text += "".join(f"a->{each}.enabled=true\n" for each in "bcdef")
        found = of_file(tmp_path, "a->b.replication.factor=3", text=text)
        (row,) = [row for row in found.defaults if row.key == "replication.factor"]
        assert row.why.startswith("for a->c, a->d, a->e, and 1 more: ")
