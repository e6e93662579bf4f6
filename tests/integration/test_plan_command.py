"""`mirror plan`: it shows what a run would do, and does nothing of it."""

from __future__ import annotations

from pathlib import Path

from tests.harness import topics
from tests.harness.command import answer, mirror
from tests.harness.load import Made
from tests.harness.pair import Pair


def names(bootstrap: str) -> set[str]:
    return set(topics.admin(bootstrap).list_topics(timeout=30).topics)


def test_what_is_to_be_created_changed_and_copied(pair: Pair, tmp_path: Path) -> None:
    new, grown = pair.topic("new", 2, retention_ms=123_456_789), pair.topic("grown", 3)
    topics.create(pair.target, pair.remote(grown), 1)
    pair.produce(new, *[Made(None, b"x")] * 10, partition=1)
    pair.produce(grown, *[Made(None, b"x")] * 7)
    topics.remove_records(pair.source, grown, before=4)
    topics.commit(pair.target, pair.group, pair.remote(grown), {0: 2}, topics.ours(pair.source, grown))
    before = names(pair.target)
    file = pair.service(tmp_path, {"canary": {"enabled": True}}).file

    (plan,) = answer("plan", "-c", file)["flows"]
    assert names(pair.target) == before, "nothing is created"
    ((created, (partitions, config)),) = plan["create"].items()
    assert (created, partitions, config["retention.ms"]) == (pair.remote(new), 2, "123456789")
    assert plan["grow"] == {pair.remote(grown): [1, 3]}
    ours = ("mirror-control", "mirror-status", "mm2-offset-syncs", "mirror-offset-map")
    assert plan["internal"] == [
        *(f"{kind}.{pair.alias}.internal" for kind in ours),
        f"{pair.alias}.checkpoints.internal",
    ]
    assert plan["on_source"] == [f"mirror-canary.{pair.alias}.internal"]
    found = {(p["topic"], p["partition"]): p for p in plan["partitions"]}
    assert {key: (p["committed"], p["start"], p["end"], p["records"], p["lost"]) for key, p in found.items()} == {
        (new, 0): (False, 0, 0, 0, 0),
        (new, 1): (False, 0, 10, 10, 0),
        (grown, 0): (True, 2, 7, 3, 2),
        (grown, 1): (False, 0, 0, 0, 0),
        (grown, 2): (False, 0, 0, 0, 0),
    }
    ended = mirror("plan", "-c", file)
    assert ended.returncode == 0
    assert f"create {pair.remote(new)}, 2 partitions, retention.ms=123456789" in ended.stdout
    assert f"add partitions to {pair.remote(grown)}: 1 -> 3" in ended.stdout
    assert f"create mirror-canary.{pair.alias}.internal on the source, 1 partition, compacted" in ended.stdout
    assert "13 records to copy" in ended.stdout


def test_what_is_left_out_and_why(pair: Pair, tmp_path: Path) -> None:
    """`plan` and `check` say what `topics` matches and is not copied, and what matches nothing."""
    plain, internal, cycle = pair.topic("plain"), pair.topic("x-internal"), pair.topic("from.backup.here")
    excluded = pair.topic("a.replica")
    topics.commit(pair.source, f"{pair.prefix}billing", plain, {0: 0})
    nothing = f"{pair.prefix}biling"
    entries = {"topics": [f"{pair.prefix}.*", "nothing"], "groups": {"include": [nothing]}}
    file = pair.service(tmp_path, entries).file
    (plan,) = answer("plan", "-c", file)["flows"]
    assert {p["topic"] for p in plan["partitions"]} == {plain}
    reasons = {name: reason for reason, names in plan["left_out"].items() for name in names}
    assert reasons.keys() == {internal, cycle, excluded}
    assert reasons[internal].startswith("internal: ") and "a cycle: " in reasons[cycle]
    assert "in exclude" in reasons[excluded]
    shown = mirror("plan", "-c", file).stdout
    checks = answer("check", "-c", file)["checks"]
    said = [each["said"] for each in checks if each["what"] == "topics left out"]
    for name, reason in reasons.items():
        assert f"not copied, 1 topic: {name}: {reason}" in shown
        assert f"1 topic: {name}: {reason}" in said
    said_of = {each["what"]: (each["outcome"], each["said"]) for each in checks}
    assert said_of["transactional ids"] == ("OK", "the target has no authorizer")
    assert said_of["the position's group"][0] == "OK"
    lonely = [each["said"] for each in checks if "matches no" in each["said"]]
    assert len(lonely) == 2 and '"nothing" in topics matches no topic of the source' in lonely[0]
    assert f'"{nothing}" in groups.include matches no consumer group of the source' in lonely[1]
    assert all(f"{each}; " in shown for each in lonely) and f'did you mean "{pair.prefix}billing"?' in shown
