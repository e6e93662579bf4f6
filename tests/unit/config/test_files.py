"""Several files and flow_defaults: which value wins, that every problem names its file, and what is too much."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import reference
from pydantic import BaseModel

from mirror import service_settings
from mirror.config.flow_model import EndsModel
from mirror.config.load import load
from mirror.errors import ConfigError

BASE = """\
clusters:
  primary: {bootstrap.servers: "localhost:9092", client.id: base, consumer: {fetch.min.bytes: 1}}
  backup: {bootstrap.servers: "localhost:9093"}
  third: {bootstrap.servers: "localhost:9094"}
flows:
  - source: primary
    target: backup
    topics: [orders, payments, users]
    exclude: [x]
    groups: {sync: true, interval: 30s}
  - {source: primary, target: third}
http: {port: 1234}
spark: {conf: {spark.a: 1, spark.b: 1}}
drain_timeout: 5s
"""


def written(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{number}.yaml" for number in range(1, len(texts) + 1)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def read(folder: Path, *texts: str, **environ: str) -> service_settings.Settings:
    return load(written(folder, *texts), environ)


def refused(folder: Path, *texts: str, **environ: str) -> list[str]:
    """The problems, without the folder."""
    with pytest.raises(ConfigError) as caught:
        read(folder, *texts, **environ)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]


def test_mappings_are_merged_key_by_key(tmp_path: Path) -> None:
    over = """\
clusters:
  primary: {client.id: over, consumer: {fetch.wait.max.ms: 60}}
spark: {conf: {spark.b: 2, spark.c: 3}}
log: {level: debug}
"""
    found = read(tmp_path, BASE, over)
    source = found.flows[0].source
    assert source.properties == {"bootstrap.servers": "localhost:9092", "client.id": "over"}
    assert source.consumer == {"fetch.min.bytes": "1", "fetch.wait.max.ms": "60"}
    assert found.spark.conf == {"spark.a": "1", "spark.b": "2", "spark.c": "3"}
    assert (found.log.level, found.http.port, found.drain_timeout) == ("debug", 1234, 5)


def test_flows_of_one_pair_are_merged_and_others_are_added(tmp_path: Path) -> None:
    over = """\
flows:
  - {source: backup, target: third}
  - {source: primary, target: backup, topics: [users], groups: {interval: 40s}, tasks_max: 3}
"""
    found = read(tmp_path, BASE, over, "flows: [{source: primary, target: backup, tasks_max: null}]")
    assert [flow.name for flow in found.flows] == ["primary->backup", "primary->third", "backup->third"]
    first = found.flows[0]
    assert (first.topics, first.exclude, first.tasks_max) == (("users",), ("x",), None)
    assert (first.groups.sync, first.groups.interval) == (True, 40)


def test_the_order_of_the_files_decides(tmp_path: Path) -> None:
    one, two = "drain_timeout: 1s", "drain_timeout: 2s"
    assert read(tmp_path, BASE, one, two).drain_timeout == 2
    assert read(tmp_path, BASE, two, one).drain_timeout == 1
    assert read(tmp_path, one, BASE).drain_timeout == 5


def test_one_file_in_a_list_is_as_one_file(tmp_path: Path) -> None:
    (path,) = written(tmp_path, BASE)
    assert load([path], {}) == load(path, {})


def test_a_value_of_another_kind_replaces_all_before_it(tmp_path: Path) -> None:
    problems = refused(tmp_path, BASE, "log: {level: debug}", "log: nothing", "log: {format: jsn}")
    assert problems == ['4.yaml:1: log.format: must be text or json, not "jsn"']
    assert read(tmp_path, BASE, "log: {level: debug}", "log: nothing", "log: {format: json}").log.level == "info"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((BASE, "\nhttp: {port: x}"), "2.yaml:2: http.port: must be a whole number from 0 to 65535 "),
        ((BASE.replace("1234", "x"), "http: {host: a}"), "1.yaml:12: http.port: must be a whole number"),
        ((BASE, "htpp: {}"), '2.yaml:1: htpp: unknown key; did you mean "http"'),
        # The index is the one of the file.
        (
            (BASE, "flows:\n  - {source: primary, target: third,\n     topics: [a, '(']}"),
            "2.yaml:3: flows[0].topics[1]: ",
        ),
        (
            (BASE.replace("users]", "'(']"), "flows: [{source: primary, target: backup}]"),
            "1.yaml:8: flows[0].topics[2]: ",
        ),
        ((BASE, "clusters:\n  fourth: {client.id: a}"), "2.yaml:2: clusters.fourth.bootstrap.servers: required"),
        ((BASE, "clusters: {primary: {client.idd: a}}"), "2.yaml:1: clusters.primary.client.idd: unknown property"),
        (
            (BASE, "clusters: {primary: {consumer: {fetch.min.bytes: x}}}"),
            "2.yaml:1: clusters.primary.consumer.fetch.min.",
        ),
        ((BASE, "flows: [{source: primary, target: fourth}]"), "2.yaml:1: flows[0].target: undefined cluster"),
        ((BASE, "flows: [{target: backup}]"), "2.yaml:1: flows[0].source: required"),
        ((BASE, "http: {port: 1"), "2.yaml:1: bad YAML"),
        ((BASE, "log: {level: info, level: info}"), "2.yaml:1: log.level: duplicate key"),
        (("# nothing", "---\n# nothing"), "2.yaml:1: the file is empty"),
        ((BASE, "- a"), "2.yaml:1: the top level is not a mapping"),
        (
            ("http: {port: 1}", "log: {level: info}", BASE.replace("flows:", "flow:")),
            "3.yaml:5: flow: unknown key; did",
        ),
        (
            (BASE, "flows:\n  - {source: backup, target: third}\n  - {source: backup, target: third}"),
            "2.yaml:3: flows[1]: flows[0] (2.yaml:2) has the same source and target",
        ),
        (
            (BASE, "flows: [{source: backup, target: third, group: mirror-primary-third}]"),
            "2.yaml:1: flows[0].group: flows[1] (1.yaml:11) has the same group on the same target",
        ),
        ((BASE, "spark: {master: 'spark://a:1'}"), "1.yaml:13: spark.conf.spark.authenticate.secret: required"),
    ],
)
def test_a_problem_names_the_file_in_which_the_value_stands(
    tmp_path: Path, texts: tuple[str, ...], expected: str
) -> None:
    assert expected in "\n".join(refused(tmp_path, *texts))


def test_problems_come_file_by_file(tmp_path: Path) -> None:
    problems = refused(tmp_path, BASE.replace("5s", "x"), "log: {level: x}\nhttp: {port: x}\n")
    assert [problem.split(": ")[0] for problem in problems] == ["1.yaml:14", "2.yaml:1", "2.yaml:2"]


def test_a_file_that_can_not_be_read_is_the_only_problem(tmp_path: Path) -> None:
    (path,) = written(tmp_path, "flows: []")
    with pytest.raises(ConfigError) as caught:
        load([path, tmp_path / "none.yaml"], {})
    assert caught.value.problems == [f"{tmp_path}/none.yaml: can't be read: No such file or directory"]


def test_a_reference_that_is_replaced_need_not_be_there(tmp_path: Path) -> None:
    base = BASE.replace("client.id: base", "client.id: '${env:NO}'").replace("[orders,", "['${env:NO}',")
    over = "clusters: {primary: {client.id: a}}\nflows: [{source: primary, target: backup, topics: [a]}]"
    assert read(tmp_path, base, over).flows[0].topics == ("a",)
    assert [problem.partition(": environment")[0] for problem in refused(tmp_path, base)] == [
        "1.yaml:2: clusters.primary.client.id",
        "1.yaml:8: flows[0].topics[0]",
    ]


def test_a_relative_file_starts_at_its_own_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "id").write_text(name)
    (tmp_path / "a" / "c.yaml").write_text(BASE.replace("client.id: base", "client.id: '${file:id}'"))
    (tmp_path / "b" / "c.yaml").write_text("clusters: {backup: {client.id: '${file:id}'}}")
    (flow, _) = load([tmp_path / "a" / "c.yaml", tmp_path / "b" / "c.yaml"], {}).flows
    assert (flow.source.properties["client.id"], flow.target.properties["client.id"]) == ("a", "b")


def test_what_a_later_file_hides_is_not_shown(tmp_path: Path) -> None:
    """The value came from a reference, whichever file the mapping around it is in."""
    problems = refused(
        tmp_path, BASE, "flows: [{source: primary, target: backup, compression: '${env:S}'}]", S="hunter2"
    )
    assert len(problems) == 1 and "hunter2" not in problems[0]
    (problem,) = refused(tmp_path, BASE, "clusters: {primary: {client.idd: '${env:S}'}}", S="hunter2")
    assert "hunter2" not in problem
    # And the other way round: what a later file writes plainly is shown.
    base = BASE.replace("exclude: [x]", "exclude: ['${env:S}']")
    (problem,) = refused(tmp_path, base, "flows: [{source: primary, target: backup, exclude: ['(']}]", S="hunter2")
    assert 'bad regular expression "("' in problem


DEFAULTS = """\
flow_defaults:
  compression: zstd
  topics: [orders]
  groups: {sync: true, interval: 30s}
  tasks_max: 3
"""
PLAIN = """\
clusters:
  primary: {bootstrap.servers: "localhost:9092"}
  backup: {bootstrap.servers: "localhost:9093"}
flows:
  - {source: primary, target: backup}
  - {source: backup, target: primary, topics: [a], groups: {interval: 40s}, tasks_max: null}
"""


def test_a_flow_gets_the_keys_that_it_does_not_set(tmp_path: Path) -> None:
    one, other = read(tmp_path, PLAIN + DEFAULTS).flows
    assert (one.compression, one.topics, one.tasks_max) == ("zstd", ("orders",), 3)
    assert (one.groups.sync, one.groups.interval, one.groups.checkpoints) == (True, 30, True)
    assert (other.compression, other.topics, other.tasks_max) == ("zstd", ("a",), None)
    assert (other.groups.sync, other.groups.interval) == (True, 40)


def test_a_flow_of_an_earlier_file_wins_over_flow_defaults_of_a_later_one(tmp_path: Path) -> None:
    later = "flow_defaults: {topics: [b], groups: {checkpoints: false}, heartbeats: {enabled: true}}"
    one, other = read(tmp_path, PLAIN + DEFAULTS, later).flows
    assert (one.topics, other.topics) == (("b",), ("a",))
    assert (one.groups.sync, one.groups.checkpoints, one.groups.interval) == (True, False, 30)
    assert (other.groups.checkpoints, other.heartbeats.enabled, other.heartbeats.interval) == (False, True, 1)


def test_flow_defaults_can_be_dropped(tmp_path: Path) -> None:
    one, _ = read(tmp_path, PLAIN + DEFAULTS, "flow_defaults: ~", "flow_defaults: {tasks_max: 5}").flows
    assert (one.topics, one.tasks_max, one.groups.sync) == ((".*",), 5, False)
    assert read(tmp_path, PLAIN + DEFAULTS, "flow_defaults: ~") == read(tmp_path, PLAIN)


LOGGED_IN = """\
clusters:
  primary:
    bootstrap.servers: "localhost:9092"
    security.protocol: SASL_PLAINTEXT
    sasl.mechanisms: PLAIN
    sasl.username: u
    sasl.password: "${env:NO}"
    consumer: {fetch.min.bytes: 1}
  backup: {bootstrap.servers: "localhost:9093"}
flows:
  - source: primary
    target: backup
    topics: [orders, payments]
    compression: zstd
    groups: {sync: true, interval: 30s}
    topic_settings: {orders: {throttle: 1MB}, payments: {throttle: 1MB}}
spark: {master: "local[2]", conf: {spark.a: 1}}
metrics: {labels: topic, otlp: {endpoint: "http://localhost:4318/v1/metrics", headers: {a: b}}}
"""


def test_null_takes_away_what_earlier_files_say(tmp_path: Path) -> None:
    over = """\
clusters:
  primary: {security.protocol: null, sasl.mechanisms: ~, sasl.username: null, sasl.password: null, consumer: null}
flows:
  - {source: primary, target: backup, topics: null, compression: null, groups: null, topic_settings: {orders: null}}
spark: {master: null, conf: {spark.a: null}}
metrics: null
"""
    found = read(tmp_path, LOGGED_IN, over)
    (flow,) = found.flows
    assert flow.source.properties == {"bootstrap.servers": "localhost:9092"} and flow.source.consumer == {}
    assert (flow.topics, flow.compression, flow.groups.sync, flow.groups.interval) == ((".*",), "none", False, 60)
    assert flow.topic_settings.keys() == {"payments"}
    assert (found.spark.master, found.spark.conf) == ("local[*]", {})
    assert (found.metrics.labels, found.metrics.otlp.endpoint) == ("partition", None)


def test_what_was_taken_away_can_be_said_anew(tmp_path: Path) -> None:
    later = "flows: [{source: primary, target: backup, groups: {sync: false}}]\nspark: {conf: {spark.b: 2}}\n"
    null = "clusters: {primary: {sasl.password: null}}\nflows: [{source: primary, target: backup, groups: null}]\n"
    found = read(tmp_path, LOGGED_IN, null + "spark: {conf: null}", later + "clusters: {primary: {sasl.password: p}}")
    (flow,) = found.flows
    assert (flow.groups.sync, flow.groups.interval) == (False, 60)
    assert flow.source.properties["sasl.password"] == "p" and found.spark.conf == {"spark.b": "2"}


def test_null_in_a_flow_takes_flow_defaults_away(tmp_path: Path) -> None:
    text = PLAIN.replace("target: backup}", "target: backup, topics: null, groups: null}") + DEFAULTS
    one, other = read(tmp_path, text).flows
    assert (one.topics, one.groups.sync, one.tasks_max) == ((".*",), False, 3)
    assert (other.topics, other.groups.sync) == (("a",), True)
    one, _ = read(tmp_path, PLAIN + DEFAULTS, "flow_defaults: {compression: null, groups: {interval: null}}").flows
    assert (one.compression, one.groups.sync, one.groups.interval) == ("none", True, 60)


@pytest.mark.parametrize("text", ["metrics:\n  # labels: topic\n", "metrics: {otlp: ~}\n", "metrics: null\n"])
def test_a_section_without_a_key_is_as_if_absent(tmp_path: Path, text: str) -> None:
    flows = "flows: [{source: primary, target: backup, groups: , topic_settings: {a: }, heartbeats: null}]\n"
    base = BASE[: BASE.index("flows:")] + "spark: {conf:}\nhttp:\n"
    plain = read(tmp_path, base + "flows: [{source: primary, target: backup}]")
    assert read(tmp_path, base + text + flows) == plain
    assert read(tmp_path, base, text + flows) == plain, "also where a later file has the whole flow"
    assert read(tmp_path, base.replace("  third:", "  fourth:\n  third:") + flows) == plain


def test_a_section_whose_keys_are_all_commented_out_takes_nothing_away(tmp_path: Path) -> None:
    over = "metrics:\n  # labels: partition\nspark:\n  conf:\nflows:\n  - {source: primary, target: backup, groups: }\n"
    assert read(tmp_path, LOGGED_IN, over, NO="p") == read(tmp_path, LOGGED_IN, NO="p")


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, BASE, "# nothing\n", "---\n") == read(tmp_path, BASE)
    assert read(tmp_path, "# nothing\n", BASE) == read(tmp_path, BASE)


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        # Nothing is written: the value was forgotten.
        ("flows: [{source: primary, target: backup, topics: }]", "flows[0].topics: must be a list, e.g. [orders],"),
        ("clusters: {primary: {sasl.username: }}", "clusters.primary.sasl.username: must be a single value: text, a"),
        # A name that may have a typo.
        ("clusters: {primary: {sasl.pasword: null}}", "clusters.primary.sasl.pasword: null takes away what an earlier"),
        ("spark: {conf: {spark.b: null}}", "spark.conf.spark.b: null takes away what an earlier file says, but none"),
        ("flows: [{source: primary, target: backup, topcis: ~}]", 'topcis: unknown key; did you mean "topics"'),
        ("log: {level: null, colour: null}", "log.colour: unknown key; allowed: level, format"),
        ("clusters: {backup: null}", "flows[0].target: undefined cluster"),
        ("flows: [{source: primary, target: backup, topics: [a, ~]}]", "flows[0].topics[1]: must be a topic's name"),
    ],
)
def test_nulls_that_are_mistakes(tmp_path: Path, over: str, expected: str) -> None:
    (problem,) = refused(tmp_path, LOGGED_IN, over, NO="hunter2")
    assert expected in problem and "hunter2" not in problem


def test_a_later_null_may_find_nothing_to_take_away(tmp_path: Path) -> None:
    over = "log: {level: null}\nflows: [{source: primary, target: backup, exclude: null, tasks_max: null}]"
    assert read(tmp_path, LOGGED_IN, over, NO="p") == read(tmp_path, LOGGED_IN, NO="p")


def test_where_null_is_a_value_it_is_the_default() -> None:
    """So it makes no difference whether it takes an earlier value away, or replaces it."""
    nullable, kinds = 0, list[type[BaseModel]]([*reference.SECTIONS.values(), EndsModel])
    for kind in kinds:
        for name, field in kind.model_fields.items():
            if type(None) in get_args(field.annotation):
                nullable += 1
                assert field.default is None, name
    assert nullable > 10


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [
        ("{compression: x}", ["flow_defaults.compression: must be none, gzip,"]),
        ("{topics: [a, '(']}", ["flow_defaults.topics[1]: bad regular expression"]),
        ("{groups: {snyc: true}}", ['flow_defaults.groups.snyc: unknown key; did you mean "sync"']),
        ("{groups: x}", ["flow_defaults.groups: must be a mapping, e.g. {sync: true}"]),
        ("{compresion: zstd}", ['flow_defaults.compresion: unknown key; did you mean "compression"? allowed: topics']),
        ("{source: primary}", ["flow_defaults.source: each flow has its own source; allowed: topics,"]),
        ("{group: a}", ["flow_defaults.group: each flow has its own group; allowed: topics,"]),
        ("[a]", ["flow_defaults: must be a mapping of a flow's keys but source, target and group"]),
        ("{tasks_max: '${env:NO}'}", ["flow_defaults.tasks_max: environment variable NO is not set"]),
        ("{compression: x, separator: /}", ["flow_defaults.separator: ", "flow_defaults.compression: "]),
        # Problems between keys or flows: of the flow that has it, but at the line to change.
        ("{groups: {sync: true}, exactly_once: false}", ["flow_defaults.groups.sync: offsets can only"]),
        ("{replication_policy: identity}", ["flow_defaults.replication_policy: here and in flows[0] records"]),
        ("{topics: [orders, __x]}", ['flow_defaults.topics[1]: "__x" is never copied']),
    ],
)
def test_a_problem_of_flow_defaults_is_told_once_at_its_own_line(
    tmp_path: Path, defaults: str, expected: list[str]
) -> None:
    flows = PLAIN.partition("  - {source: backup")[0] + "  - {source: backup, target: primary}\n"
    problems = refused(tmp_path, f"{flows}flow_defaults: {defaults}\n")
    assert len(problems) == len(expected), problems
    for problem, words in zip(problems, expected, strict=True):
        assert problem.startswith(f"1.yaml:7: {words}"), problem


def test_a_problem_between_flows_that_comes_from_flow_defaults_names_the_flow(tmp_path: Path) -> None:
    text = PLAIN.replace("tasks_max: null", "exactly_once: false") + DEFAULTS
    (problem,) = refused(tmp_path, text)
    assert problem.startswith("1.yaml:10: flow_defaults.groups.sync: ") and problem.endswith(" (for flows[1])")


def test_a_bad_default_that_no_flow_takes_is_bad_all_the_same(tmp_path: Path) -> None:
    text = PLAIN.replace("backup}", "backup, tasks_max: 1}") + "flow_defaults: {tasks_max: 0}\n"
    assert [problem.partition(" must")[0] for problem in refused(tmp_path, text)] == [
        "1.yaml:7: flow_defaults.tasks_max:"
    ]


def aliases(count: int, key: str) -> str:
    """A value that stands for a hundred, and aliases of it."""
    shared = ", ".join(["v"] * 99)
    return f"{key}: [&{key} [{shared}], {', '.join([f'*{key}'] * count)}]\n"


def test_the_limit_of_aliases_holds_for_all_files_together(tmp_path: Path) -> None:
    half = aliases(600, "x")
    assert any("x: unknown key" in problem for problem in refused(tmp_path, BASE + half))
    assert any("2.yaml:1: aliases repeat" in problem for problem in refused(tmp_path, BASE + half, half))


def test_flow_defaults_repeat_no_more_than_aliases(tmp_path: Path) -> None:
    clusters = "".join(f"  c{n}: {{bootstrap.servers: 'c{n}:1'}}\n" for n in range(25))
    flows = "".join(f"  - {{source: c{a}, target: c{b}}}\n" for a in range(25) for b in range(25) if a != b)
    names = ", ".join(f"t{number}" for number in range(170))
    text = f"clusters:\n{clusters}flows:\n{flows}flow_defaults:\n  topics: [{names}]\n"
    (problem,) = refused(tmp_path, text, "log: {level: info}")
    assert problem.startswith("1.yaml:628: flow_defaults: the flows take more than 100,000 values from here")
    assert len(read(tmp_path, text.replace("t169", "t169]\n#"), "flow_defaults: {topics: [a]}").flows) == 600


def test_the_limit_of_references_holds_for_all_files_together(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("v" * 2**20)
    half = "x: [" + ", ".join(["'${file:large}'"] * 10) + "]\n"
    assert any("x: unknown key" in problem for problem in refused(tmp_path, BASE + half))
    assert any(
        problem.startswith("2.yaml:1: the values with ${...}") for problem in refused(tmp_path, BASE + half, half)
    )


def test_the_limit_of_size_holds_for_all_files_together(tmp_path: Path) -> None:
    half = "# " + "x" * 600_000
    assert read(tmp_path, BASE + half) == read(tmp_path, BASE)
    (problem,) = refused(tmp_path, BASE + half, "log: {level: info}\n" + half)
    assert problem == "2.yaml: can't be read: larger than 1,048,576 bytes together with the files before it"


def test_files_that_are_nested_as_deeply_as_they_can_be_read(tmp_path: Path) -> None:
    """Merging needs no deeper stack than reading."""
    for depth in range(100, 500, 40):
        deep = "spark: {conf: " + "{a: " * depth + "1" + "}" * depth + "}\n"
        for problem in refused(tmp_path, BASE, deep, deep):
            assert "nested too deeply" in problem or "spark.conf.a: must be a single value" in problem
