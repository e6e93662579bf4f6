"""What `mirror hand-back` prints, and what it does not take."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirror.cli import cli
from mirror.commands.hand_back import command, ending
from mirror.commands.hand_back.command import NOT_READ_BACK, HandBack, Options, _Command, _read_back, shown
from mirror.commands.hand_back.selection import HandBackResult, select
from mirror.control.decisions import Incident
from mirror.control.flow_leader import FlowLeader
from mirror.control.plan import Plan
from mirror.control.reports import Counters, Report
from mirror.errors import MirrorError, Superseded
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition, Position, Topic
from mirror.target.connect_offsets import Recorded, Written
from tests.unit.test_naming import flow

ORDERS = Partition("orders", 0)
REMOTE = Partition("primary.orders", 0)
DONE = HandBackResult(ORDERS, REMOTE, "handed back", "", 1_200, 1_234)
REFUSED = HandBackResult(Partition("orders", 1), REMOTE, "refused", "it can't be believed", None, 7)
FOUND = HandBack("primary->backup", "mm2-offsets.primary.internal", False, ["a = b"], [DONE, REFUSED])
FLOW = """\
clusters: {primary: {bootstrap.servers: "127.0.0.1:1"}, backup: {bootstrap.servers: "127.0.0.1:2"}}
flows: [{source: primary, target: backup, mirrormaker_offsets: {topic: connect-offsets}}]
"""


def test_a_table_the_reasons_a_verdict_and_what_mirrormaker_needs() -> None:
    text = shown(FOUND)
    (row,) = [line.split() for line in text.splitlines() if line.startswith("orders-0")]
    assert row == ["orders-0", "1,200", "1,234", "handed", "back"]
    assert "orders-1 refused: it can't be believed" in text
    assert "1 partition handed back, 1 partition refused" in text and text.endswith("  a = b")


def test_json() -> None:
    found = json.loads(json.dumps(FOUND.as_dict()))
    assert (found["well"], found["dry_run"], found["needed"]) == (False, False, ["a = b"])
    assert found["counts"] == {"handed_back": 1, "refused": 1}
    assert found["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "remote": "primary.orders",
        "outcome": "handed back",
        "reason": "",
        "recorded": 1_200,
        "position": 1_234,
    }


@pytest.mark.parametrize(
    ("position", "read", "outcome"),
    [
        (7, Recorded(7), "handed back"),
        (7, Recorded(6), "refused"),
        (7, None, "refused"),
        (7, Recorded(-1, "several keys"), "refused"),
        (0, None, "handed back"),
        (0, Recorded(6), "refused"),
    ],
)
def test_a_position_counts_only_if_it_is_read_back(position: int, read: Recorded | None, outcome: str) -> None:
    found = _read_back(HandBackResult(ORDERS, REMOTE, "would be handed back", "", None, position), read)
    assert found.outcome == outcome
    if outcome == "refused":
        assert found.reason == (read.problem if read and read.problem else NOT_READ_BACK)


def test_an_offsets_topic_without_a_group_is_bad_use(tmp_path: Path) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(FLOW)
    ended = CliRunner().invoke(cli, ["hand-back", "-c", str(file)])
    assert ended.exit_code == 2 and "--worker-group" in ended.output


class Started(FlowLeader):
    """Finds at the nth check that another service leads the flow."""

    checks: int

    def stop_all_tasks(self) -> None:
        return None

    def check_still_leading(self) -> None:
        Started.checks -= 1
        if not Started.checks:
            raise Superseded("another service leads it now")


@pytest.mark.parametrize(
    ("exactly_once", "checks", "said"),
    [(True, 1, " but not marked"), (False, 1, " but not marked"), (False, 2, "")],
)
def test_a_service_that_is_started_meanwhile_fails_it(
    exactly_once: bool, checks: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3 would say that another service took over from this one: here MirrorMaker would."""
    Started.checks = checks
    monkeypatch.setattr(command, "FlowLeader", Started)
    monkeypatch.setattr(command, "select", lambda *_: [DONE])
    monkeypatch.setattr(ending, "await_silence", lambda *_: None)
    for step in ("_plan", "_end_mirrormaker", "_known"):
        monkeypatch.setattr(_Command, step, lambda *_: None)
    for step in ("_write", "_give_up"):
        monkeypatch.setattr(_Command, step, lambda _, results, *__: results)
    asked = flow(exactly_once=exactly_once)
    with pytest.raises(MirrorError, match=f"mm2-offsets.primary.internal{said}: stop it and hand back again") as caught:
        _Command(asked, Options(None, None, 0.0, overwrite=False, dry_run=False), io.StringIO()).run()
    assert caught.value.exit_code == 1


def test_what_was_reported_of_another_copy_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic was copied to `renamed` before, further than it is copied by now."""
    topic = Topic("primary.orders", "source-1", 1, 1, "remote-1")
    position = Position(7, "source-1", remote_id="remote-1")
    ours = Report(
        "us", "me", 1, ORDERS, topic.remote, "running", "", 7, 0, 0.0, 1.0, Counters(),
        topic_id="source-1", remote_id="remote-1", group="group",
    )  # fmt: skip
    renamed = replace(ours, remote="renamed", remote_id="remote-0", position=90, incident=Incident("deleted", "a"))
    other_group = replace(ours, group="another", position=80)
    monkeypatch.setattr(ClusterAdmin, "partitions", lambda _: {topic.remote: 1})
    for step, found in (
        ("_reports", [renamed, other_group]),
        ("_positions", ({ORDERS: position}, {})),
        ("_recorded", Written({}, 0)),
    ):
        monkeypatch.setattr(_Command, step, lambda *_, found=found: found)
    run = _Command(flow(), Options(None, None, 0.0, overwrite=False, dry_run=True), io.StringIO())
    run._orders = {}
    known = run._known(Plan("leader", 3, {"orders": topic}, (), stop=True))
    assert not known.reported and not known.incidents
    assert select(flow(), known, overwrite=False)[0].outcome == "would be handed back"
    monkeypatch.setattr(_Command, "_reports", lambda _: [renamed, ours])
    assert run._known(known.plan).reported == {ORDERS: position}
