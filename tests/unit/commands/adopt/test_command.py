"""What `mirror adopt` prints."""

from __future__ import annotations

import json

from click.testing import CliRunner

from mirror.cli import cli
from mirror.commands.adopt.command import Adoption, shown, sync_places
from mirror.commands.adopt.selection import AdoptResult
from mirror.model import Partition
from tests.unit.test_naming import flow

ORDERS = Partition("orders", 0)
REMOTE = Partition("primary.orders", 0)
ADOPTED = AdoptResult(ORDERS, REMOTE, "adopted", "", 1_200, 1_234, 1_000)
REFUSED = AdoptResult(Partition("orders", 1), REMOTE, "refused", "it does not fit", 7)


def test_a_table_the_reasons_and_a_verdict() -> None:
    text = shown(Adoption("primary->backup", False, ["id"], 2, [ADOPTED, REFUSED]))
    (row,) = [line.split() for line in text.splitlines() if line.startswith("orders-0")]
    assert row == ["orders-0", "1,200", "1,234", "1,000", "adopted"]
    assert "orders-1 refused: it does not fit" in text
    assert "2 records of the offsets topic can't be decoded" in text
    assert text.endswith("1 partition adopted, 1 partition refused")


def test_nothing_to_do() -> None:
    found = Adoption("primary->backup", False, [], 0, [])
    assert shown(found) == "primary->backup\n\nthere is nothing to adopt" and found.well


def test_json() -> None:
    found = json.loads(json.dumps(Adoption("a->b", False, ["id"], 0, [ADOPTED, REFUSED]).as_dict()))
    assert found["well"] is False and found["exactly_once"] is True and found["fenced"] == ["id"]
    assert found["counts"] == {"adopted": 1, "refused": 1}
    assert found["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "remote": "primary.orders",
        "outcome": "adopted",
        "reason": "",
        "recorded": 1_200,
        "position": 1_234,
        "compared": 1_000,
    }


def test_a_dry_run_fences_nobody() -> None:
    assert Adoption("a->b", True, ["id"], 0, []).as_dict()["fenced"] == []


def test_offset_syncs_are_looked_for_under_each_name_that_mirrormaker_gives_them() -> None:
    """Kafka 4.2 names them with the policy's separator, unless it is told to keep the dot."""
    assert [(cluster.alias, name) for cluster, name in sync_places(flow(separator="_"))] == [
        ("backup", "mm2-offset-syncs.primary.internal"),
        ("backup", "mm2-offset-syncs_primary_internal"),
        ("primary", "mm2-offset-syncs.backup.internal"),
        ("primary", "mm2-offset-syncs_backup_internal"),
    ]
    assert [name for _, name in sync_places(flow())] == [
        "mm2-offset-syncs.primary.internal",
        "mm2-offset-syncs.backup.internal",
    ]


def test_an_offsets_topic_without_a_group_is_bad_use() -> None:
    ended = CliRunner().invoke(cli, ["adopt", "-c", "none.yaml", "--offsets-topic", "connect-offsets"])
    assert ended.exit_code == 2 and "--worker-group" in ended.output
