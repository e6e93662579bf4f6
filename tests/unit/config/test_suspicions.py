"""What looks like a mistake in topics, exclude, groups, exclude_configs and start, and what does not."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.load import WARNINGS_MAX, load
from mirror.config.suspicions import _config_doubt, _doubt
from mirror.service_settings import Settings
from mirror.topics.config_rules import EXCLUDED_CONFIGS

BASE = """\
clusters:
  primary: {bootstrap.servers: "localhost:9092"}
  backup: {bootstrap.servers: "localhost:9093"}
"""


def read(folder: Path, text: str, **environ: str) -> Settings:
    path = folder / "config.yaml"
    path.write_text(BASE + text, encoding="utf-8")
    return load(path, environ)


@pytest.mark.parametrize(
    ("pattern", "words", "remedy"),
    [
        (" orders", "begins or ends with a space", "take the space out"),
        ("orders\t", "begins or ends with a space", "take the space out"),
        ("orders, payments", 'can match no topic: "," is in no topic\'s name', "write an entry for each name"),
        ("orders,payments", 'can match no topic: ","', "write an entry for each name"),
        ("my orders", 'can match no topic: " "', "write an entry for each name"),
        ("primary/orders", 'can match no topic: "/"', "names have letters, digits, '.', '_' and '-'"),
        ("/orders.*/", 'can match no topic: "/"', "names have"),
        (r"orders\\..*", 'can match no topic: "\\"', "names have"),
        (r"orders\*", 'can match no topic: "*"', "names have"),
        ("örders", 'can match no topic: "ö"', "names have"),
        ("orders| payments", 'has a part that can match no topic: " "', "write an entry for each name"),
        ("orders*", "in which * repeats the character before it", 'write "orders.*"'),
        ("orders-*", "in which * repeats", 'write "orders-.*"'),
        (".*orders*", "in which * repeats", 'write ".*orders.*"'),
        ("orders.*-v*", "in which * repeats", 'write "orders.*-v.*"'),
        ("o" * 250, "longer than 249 characters", "correct it"),
    ],
)
def test_what_looks_like_a_mistake(pattern: str, words: str, remedy: str) -> None:
    doubt = _doubt(pattern, topics=True)
    assert doubt is not None and words in doubt.what + doubt.detail and remedy in doubt.remedy


@pytest.mark.parametrize(
    "pattern",
    [
        "orders",
        "a.b-c_D9",
        "o" * 249,
        ".*",
        "orders.*",
        r"orders\..*",
        r"orders\.v\d+",
        "orders|payments",
        "orders.{1,3}",
        "orders.{2}",
        "^orders.*$",
        "orders?",
        "orders ?x",
        "orders(,x)?",
        "[^ ,]+",
        "(?x) orders # all",
        r".*[\-\.]internal",
        r"orders\-x",
        r"\w+",
        "(?!test).*",
        "a+b*|[c]",
    ],
)
def test_what_does_not(pattern: str) -> None:
    re.compile(pattern)
    assert _doubt(pattern, topics=True) is None


@pytest.mark.parametrize("pattern", ["my group", "a,b", "a/b", r"a\/b", "o" * 300, "örders"])
def test_a_group_may_have_any_name(pattern: str) -> None:
    assert _doubt(pattern, topics=False) is None
    assert _doubt(f"{pattern} ", topics=False) is not None


def test_a_wildcard_is_one_for_groups_too() -> None:
    assert _doubt("billing*", topics=False) is not None


@pytest.mark.parametrize("start", [1_000_000_000, 1_796_000_000, 9_999_999_999])
def test_a_start_in_seconds_is_told_with_the_milliseconds_that_are_meant(start: int, tmp_path: Path) -> None:
    text = f"flows: [{{source: primary, target: backup, start: {start}, topic_settings: {{a: {{start: '{start}'}}}}}}]"
    whole, single = read(tmp_path, text).warnings
    assert f'flows[0].start: "{start}" is early in 1970, because it counts in milliseconds' in whole.said
    assert f'flows[0].topic_settings.a.start: "{start}"' in single.said
    meant = re.fullmatch(r"for (\S+) write (\d+)", whole.remedy)
    assert meant is not None and int(meant[2]) == start * 1000
    for right in meant.groups():
        assert read(tmp_path, text.replace(str(start), right)).flows[0].start == start * 1000
        assert not read(tmp_path, text.replace(str(start), right)).warnings


@pytest.mark.parametrize("start", ["earliest", "latest", 0, 1, 999_999_999, 10_000_000_000, "1970-01-02T00:00:00Z"])
def test_any_other_start_is_none(start: str | int, tmp_path: Path) -> None:
    assert not read(tmp_path, f"flows: [{{source: primary, target: backup, start: '{start}'}}]").warnings


@pytest.mark.parametrize(
    ("pattern", "words", "remedy"),
    [
        ("retenton.ms", "matches no key that Kafka's topics have", 'did you mean "retention.ms"? Or leave it if'),
        ("Retention.ms", "matches no key", '"retention.ms"'),
        ("min.insync.replica", "matches no key", '"min.insync.replicas"'),
        (r"max\.mesage\.bytes", "matches no key", '"max.message.bytes"'),
        ("retention*", "repeats the character before it", 'write "retention.*"'),
        ("retention.ms ", "begins or ends with a space", "take the space out"),
    ],
)
def test_what_looks_like_a_mistake_among_keys_of_topic_configurations(pattern: str, words: str, remedy: str) -> None:
    doubt = _config_doubt(pattern)
    assert doubt is not None and words in doubt.what and remedy in doubt.remedy


@pytest.mark.parametrize(
    "pattern",
    [
        *sorted(EXCLUDED_CONFIGS),
        "retention.ms",
        "retention.*",
        ".*",
        r"segment\.(ms|bytes)",
        # Keys of others than Kafka.
        r"confluent\..*",
        "confluent.tier.local.hotset.ms",
        "confluent.value.schema.validation",
        "redpanda.remote.readreplica",
        "retention.local.target.ms",
        "flush.bytes",
        "write.caching",
    ],
)
def test_what_does_not_look_like_one(pattern: str) -> None:
    assert _config_doubt(pattern) is None


def test_a_wrong_key_of_topic_configurations_is_told_with_its_line(tmp_path: Path) -> None:
    flows = "flows: [{source: primary, target: backup, exclude_configs: [retention.ms, '${env:ONE}', retenton.ms]}]"
    hidden, shown = map(str, read(tmp_path, flows, ONE="retension.ms").warnings)
    assert "retension" not in hidden
    assert hidden.endswith("exclude_configs[1]: the value matches no key that Kafka's topics have; correct it")
    assert ':4: flows[0].exclude_configs[2]: "retenton.ms" matches no key that Kafka\'s topics have; did you' in shown


NAMES = ["".join(letters) for length in (1, 2, 3) for letters in product("ab.-", repeat=length)]


@given(st.text(alphabet="ab., \\\\|*?+{}1$^-", min_size=1, max_size=7))
def test_what_can_match_no_topic_matches_none(pattern: str) -> None:
    try:
        expression = re.compile(pattern)
    except re.error:
        return
    doubt = _doubt(pattern, topics=True)
    if doubt is not None and doubt.what.startswith("can match no topic"):
        assert not any(map(expression.fullmatch, NAMES))


def test_the_defaults_are_no_mistake(tmp_path: Path) -> None:
    assert read(tmp_path, "flows: [{source: primary, target: backup}]").warnings == ()


def test_a_warning_has_file_line_key_and_flow(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "flow_defaults:\n  exclude: ['tmp*']\nflows:\n"
        "  - {source: primary, target: backup, topics: [a, 'b c']}\n"
        "  - source: backup\n    target: primary\n    groups:\n      include: [' g']\n",
    )
    assert [(each.flow, each.said.replace(f"{tmp_path}/", "")) for each in found.warnings] == [
        ("primary->backup", 'config.yaml:7: flows[0].topics[1]: "b c" can match no topic: " " is in no topic\'s name'),
        (
            "primary->backup",
            'config.yaml:5: flow_defaults.exclude[0]: "tmp*" is a regular expression, in which * repeats the character '
            "before it",
        ),
        (
            "backup->primary",
            'config.yaml:5: flow_defaults.exclude[0]: "tmp*" is a regular expression, in which * repeats the character '
            "before it",
        ),
        (
            "backup->primary",
            'config.yaml:11: flows[1].groups.include[0]: " g" begins or ends with a space, which no name does',
        ),
    ]
    assert [len(found.warned(flow)) for flow in found.flows] == [2, 2]
    assert str(found.warnings[0]).endswith("no topic's name; write an entry for each name")


def test_a_value_from_a_reference_is_not_shown(tmp_path: Path) -> None:
    text = "flows: [{source: primary, target: backup, topics: ['${env:ONE}', '${env:TWO}']}]"
    both = [str(each) for each in read(tmp_path, text, ONE="hunter2*", TWO="hunter2 ").warnings]
    assert len(both) == 2 and "hunter2" not in "".join(both) and "topics[0]: the value is a regular" in both[0]
    (said,) = map(str, read(tmp_path, text.replace(", '${env:TWO}'", ""), ONE="a,b").warnings)
    assert said.endswith("topics[0]: the value can match no topic; correct it")


def test_there_are_not_more_warnings_than_anybody_reads(tmp_path: Path) -> None:
    names = ", ".join(["'a*'"] * 20_000)
    found = read(tmp_path, f"flows: [{{source: primary, target: backup, topics: [{names}]}}]")
    assert len(found.warnings) == WARNINGS_MAX


def test_a_wildcard_that_is_no_expression_has_a_hint() -> None:
    from mirror.config.flow_model import FlowModel  # noqa: PLC0415

    with pytest.raises(ValueError, match=r'nothing to repeat at position 0; for any characters write "\.\*"'):
        FlowModel.model_validate({"source": "a", "target": "b", "topics": ["*"]})
