"""What is to be changed on a remote topic, given both configurations and the rules. A line of a table is one case."""

from __future__ import annotations

import pytest

from mirror.kafka.topic_configs import ConfigValue, TopicConfigAdmin
from mirror.kafka.topic_creation import ANY_TIME
from mirror.model import BATCH_BYTES
from mirror.naming import matcher
from mirror.service.topic_monitor import TopicMonitor
from mirror.target.timestamps import KEEP
from mirror.topics.config_rules import EXCLUDED_CONFIGS, Change, Rules, compare
from tests.unit.test_naming import flow

RETENTION, SIZE = "retention.ms", "max.message.bytes"


def own(value: object) -> ConfigValue:
    """Set on the topic itself."""
    return ConfigValue(str(value), own=True)


def default(value: object) -> ConfigValue:
    """A default of the cluster."""
    return ConfigValue(str(value), own=False)


def changes(
    key: str, source: ConfigValue | None, target: ConfigValue | None, defaults: str = "target", exclude: str = "x"
) -> dict[str, str | None]:
    rules = Rules.of(flow(use_defaults_from=defaults, exclude_configs=(exclude,)))
    ours, theirs = ({} if each is None else {key: each} for each in (source, target))
    return {each.key: each.now for each in compare(ours, theirs, rules).changes}


CASES = [
    # source, target, what becomes of it: a value, "removed" or "" for nothing; with the source's defaults, if different
    (own(1), own(2), "1", "1"),  # altered on either side
    (own(1), own(1), "", ""),  # in step
    (own(1), default(2), "1", "1"),  # set on the source only
    (own(1), default(1), "", ""),  # the same value, though from the target's default
    (default(1), own(2), "removed", "1"),  # removed from the source, or an operator's own on the target
    (default(1), own(1), "removed", ""),
    (default(1), default(1), "", ""),
    (default(1), default(2), "", "1"),  # the defaults of both clusters differ
    (own(1), ConfigValue("2", own=False, fixed=True), "", ""),  # the target can't alter it
    (ConfigValue("1", own=True, fixed=True), own(2), "", ""),  # nor the source, so it belongs to the cluster
    (None, own(2), "", ""),  # a key that only a newer target knows
    (own(1), None, "", ""),  # a key that an older target does not know
    (default(1), None, "", ""),
]


@pytest.mark.parametrize(("source", "target", "from_target", "from_source"), CASES)
def test_what_is_changed(
    source: ConfigValue | None, target: ConfigValue | None, from_target: str, from_source: str
) -> None:
    for defaults, expected in (("target", from_target), ("source", from_source)):
        wanted = {RETENTION: None if expected == "removed" else expected} if expected else {}
        assert changes(RETENTION, source, target, defaults) == wanted, defaults


NEVER = [
    "confluent.tier.enable",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "remote.log.copy.disable",
    "remote.storage.enable",
    "unclean.leader.election.enable",
]


@pytest.mark.parametrize("key", NEVER)
@pytest.mark.parametrize("source", [own(1), default(1)])
@pytest.mark.parametrize("defaults", ["source", "target"])
def test_never_touched_whatever_the_list_says(key: str, source: ConfigValue, defaults: str) -> None:
    for target in (own(2), default(2)):
        assert not changes(key, source, target, defaults)
    assert Rules.of(flow(use_defaults_from=defaults)).at_creation({key: source, RETENTION: own(2)}) == {RETENTION: "2"}


def test_what_mirror_sets_itself_is_never_touched() -> None:
    assert (ANY_TIME | KEEP).keys() <= EXCLUDED_CONFIGS <= set(NEVER)


@pytest.mark.parametrize(("exclude", "left"), [(RETENTION, True), ("retention.*", True), ("retention", False)])
def test_a_key_of_the_list_is_left_alone(exclude: str, left: bool) -> None:
    for source, target in ((own(1), own(2)), (default(1), own(2))):
        assert bool(changes(RETENTION, source, target, exclude=exclude)) is not left
    rules = Rules(matcher([exclude]), "target")
    assert rules.at_creation({RETENTION: own(1), "segment.ms": own(2)}) == (
        {"segment.ms": "2"} if left else {RETENTION: "1", "segment.ms": "2"}
    )


SMALL, LARGE, LARGER = BATCH_BYTES - 1, BATCH_BYTES * 2, BATCH_BYTES * 3


@pytest.mark.parametrize(
    ("source", "target", "from_target", "from_source"),
    [
        (own(LARGER), own(LARGE), LARGER, LARGER),  # raised
        (own(LARGER), default(LARGE), LARGER, LARGER),
        (own(LARGE), own(LARGER), None, None),  # never lowered: an operator may have raised it for a refused record
        (own(SMALL), default(BATCH_BYTES), None, None),  # a smaller limit than Kafka's default
        (own(SMALL), own(10), None, None),
        (default(BATCH_BYTES), own(LARGER), None, None),  # nor removed
        (default(LARGER), own(LARGE), None, LARGER),
        (own("none"), own(LARGE), None, None),
        (own(LARGE), own("none"), None, None),
        (own(2**31), own(LARGE), None, None),
    ],
)
def test_the_largest_batch_is_only_raised(
    source: ConfigValue, target: ConfigValue, from_target: int | None, from_source: int | None
) -> None:
    for defaults, expected in (("target", from_target), ("source", from_source)):
        wanted = {} if expected is None else {SIZE: str(expected)}
        assert changes(SIZE, source, target, defaults) == wanted, defaults


GIVEN = {
    RETENTION: own(1),
    SIZE: own(SMALL),
    "segment.ms": default(7),
    "preallocate": ConfigValue("true", own=True, fixed=True),
    "min.insync.replicas": own(2),
    "remote.storage.enable": own("true"),
}


def test_a_new_topic_gets_what_is_set_and_may_be_copied() -> None:
    assert Rules.of(flow()).at_creation(GIVEN) == {RETENTION: "1"}
    assert Rules.of(flow()).at_creation({SIZE: own(LARGE)}) == {SIZE: str(LARGE)}
    assert Rules.of(flow()).at_creation({SIZE: default(LARGE)}) == {}
    assert Rules.of(flow()).at_creation({SIZE: own("none")}) == {}


def test_a_new_topic_gets_the_sources_defaults_if_the_flow_wants_them() -> None:
    """At once: with the target's retention, old records could be deleted there before the first comparison."""
    rules = Rules.of(flow(use_defaults_from="source"))
    assert rules.at_creation(GIVEN) == {RETENTION: "1", "segment.ms": "7"}
    assert rules.at_creation({SIZE: default(LARGE)}) == {SIZE: str(LARGE)}
    assert rules.at_creation({SIZE: default(SMALL)}) == {}


@pytest.mark.parametrize(("defaults", "wanted"), [("target", {}), ("source", {RETENTION: "9"})])
def test_it_is_created_by_what_holds_on_the_source(
    defaults: str, wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicConfigAdmin, "configs", lambda _, names: ({n: {RETENTION: default(9)} for n in names}, {}))
    monitor = TopicMonitor(flow(use_defaults_from=defaults))
    assert list(monitor._lacking({"t": 3}, {})) == [{"primary.t": (3, wanted)}]


def test_keys_that_the_target_does_not_know_are_named() -> None:
    source = {"new.key": own(1), "other.key": default(1), RETENTION: own(5), "remote.storage.enable": own(1)}
    found = compare(source, {RETENTION: own(6)}, Rules.of(flow()))
    assert found.unknown == ("new.key",), "of the others nobody asks for a value"
    assert found.changes == (Change(RETENTION, "6", "5"),)
    assert str(found.changes[0]) == "retention.ms=5 (was 6)"
    assert str(Change(RETENTION, "6", None)) == "retention.ms removed (was 6)"
