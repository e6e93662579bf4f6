"""The files of a running service: when they count as changed, and what is in force after they were read again."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from mirror.config.reload import Configuration
from mirror.errors import ConfigError
from mirror.web.guard import Guard

BASE = """\
clusters:
  a: {bootstrap.servers: "a:9092"}
  b: {bootstrap.servers: "b:9092"}
flows:
  - {source: a, target: b, topics: [orders]}
"""
OTHER = BASE.replace("orders", "bills!?")
MORE = BASE.replace("[orders]", "[orders, bills]")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "mirror.yaml"
    found.write_text(BASE)
    return found


def settle(configuration: Configuration) -> bool:
    """True if the files have changed: the first call sees that something moves, the second that it has come to rest."""
    return configuration.has_changed() or configuration.has_changed()


def test_a_changed_content_is_noticed_once_and_after_it_has_come_to_rest(file: Path) -> None:
    configuration = Configuration([file], {})
    assert not settle(configuration)
    file.write_text(MORE[:50])
    assert not configuration.has_changed(), "it may be being written"
    file.write_text(MORE)
    assert not configuration.has_changed(), "it was written further"
    assert configuration.has_changed()
    assert not settle(configuration)
    found = configuration.reload()
    assert found.applied == ("a->b: topics",) and found.settings.flows[0].topics == ("orders", "bills")
    assert found.settings is configuration.settings


def test_another_time_with_the_same_content_is_no_change(file: Path) -> None:
    configuration = Configuration([file], {})
    os.utime(file, ns=(1, 1))
    assert not settle(configuration)


def test_a_file_that_is_replaced_or_goes_is_a_change(file: Path, tmp_path: Path) -> None:
    configuration = Configuration([file], {})
    new = tmp_path / "new"
    new.write_text(MORE)
    new.replace(file)
    assert settle(configuration)
    file.unlink()
    assert settle(configuration)
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        configuration.reload()


def test_a_config_map_is_followed(tmp_path: Path) -> None:
    """Kubernetes swaps a link to the folder that has the files."""
    for name, text in (("one", BASE), ("two", MORE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mirror.yaml").write_text(text)
    data, link = tmp_path / "..data", tmp_path / "mirror.yaml"
    data.symlink_to("one")
    link.symlink_to("..data/mirror.yaml")
    configuration = Configuration([link], {})
    assert not settle(configuration)
    swapped = tmp_path / "..data_tmp"
    swapped.symlink_to("two")
    swapped.rename(data)
    assert settle(configuration)
    assert configuration.reload().applied == ("a->b: topics",)


def test_any_of_several_files_counts(file: Path, tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text("log: {level: info}\n")
    configuration = Configuration([file, over], {})
    over.write_text("log: {level: debug}\n")
    assert settle(configuration)
    assert configuration.reload().settings.log.level == "debug"


def test_an_invalid_file_changes_nothing(file: Path) -> None:
    configuration = Configuration([file], {})
    before = configuration.settings
    file.write_text(BASE + "drain_timeout: for ever\n")
    with pytest.raises(ConfigError) as raised:
        configuration.reload()
    assert raised.value.problems[0].startswith(f"{file}:6: drain_timeout: must be a duration")
    assert configuration.settings is before
    file.write_text(MORE)
    assert configuration.reload().applied == ("a->b: topics",)


def test_what_waits_is_told_at_each_reload_until_it_is_taken_back(file: Path) -> None:
    configuration = Configuration([file], {})
    file.write_text(MORE + "http: {port: 1}\n")
    first, second = configuration.reload(), configuration.reload()
    assert first.applied and not second.applied, "it is in force"
    assert first.waiting == second.waiting == ("http.port",)
    assert second.settings.http.port == 9464
    file.write_text(MORE)
    assert not configuration.reload().waiting


def test_suspicions_of_the_new_files_are_told(file: Path) -> None:
    configuration = Configuration([file], {})
    file.write_text(BASE.replace("[orders]", '["orders*"]'))
    (warning,) = configuration.reload().settings.warnings
    assert f"{file}:5" in str(warning)


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, BASE.encode())
    os.close(write)
    configuration = Configuration([Path(f"/dev/fd/{read}")], {})
    try:
        assert not settle(configuration)
        with pytest.raises(ConfigError, match="not a regular file, so it can't be read again"):
            configuration.reload()
    finally:
        os.close(read)


def test_what_a_running_service_can_not_follow_is_taken_as_a_whole_where_nothing_runs(file: Path) -> None:
    configuration = Configuration([file], {})
    file.write_text(MORE.replace("a:9092", "c:9092").replace("bills]", "bills], group: other, transform: json.dumps"))
    before = configuration.settings
    assert not configuration.reload().applied and configuration.settings == before
    found = configuration.replace(lambda _: None)
    assert not found.waiting and found.settings is configuration.settings
    assert {"a->b: topics", "a->b: group", "a->b: transform"} < set(found.applied)
    assert found.settings == Configuration([file], {}).settings
    assert not configuration.replace(lambda _: None).applied and not settle(configuration)


SECRETS = """\
clusters:
  a: {bootstrap.servers: "a:9092", security.protocol: SASL_SSL, sasl.mechanisms: PLAIN, sasl.username: mirror,
      sasl.password: "${file:cluster}"}
  b: {bootstrap.servers: "b:9092"}
flows:
  - {source: a, target: b, topics: [orders]}
http: {username: scraper, password: "${file:http}"}
"""


def authorization(password: str) -> str:
    return "Basic " + base64.b64encode(f"scraper:{password}".encode()).decode()


def test_passwords_that_have_changed_in_their_files_are_those_of_the_settings_that_replace_others(
    file: Path, tmp_path: Path
) -> None:
    """The HTTP server begins with them, and executors that do not have the files get them."""
    for name in ("cluster", "http"):
        (tmp_path / name).write_text(f"old-{name}\n")
    file.write_text(SECRETS.replace("${file:", f"${{file:{tmp_path}/"))
    configuration = Configuration([file], {})
    assert not configuration.replace(lambda _: None).applied
    for name in ("cluster", "http"):
        (tmp_path / name).write_text(f"new-{name}\n")
    found = configuration.replace(lambda _: None)
    assert not found.applied and configuration.replaced == 0, "a standby has no reason to wait anew"
    assert found.settings is configuration.settings and found.settings.http.password == "new-http"
    assert found.settings.flows[0].source.properties["sasl.password"] == "new-cluster"
    guard = Guard(found.settings.http)
    assert guard.admits(authorization("new-http")) and not guard.admits(authorization("old-http"))
    file.write_text(file.read_text().replace("[orders]", "[bills]"))
    assert configuration.replace(lambda _: None).applied and configuration.replaced == 1


def test_another_origin_of_a_password_waits_for_a_start_even_if_its_text_is_the_same(
    file: Path, tmp_path: Path
) -> None:
    for name in ("cluster", "http", "other"):
        (tmp_path / name).write_text("same")
    begin = SECRETS.replace("${file:", f"${{file:{tmp_path}/")
    literal = begin.replace(f"${{file:{tmp_path}/cluster}}", "same")
    other = begin.replace("/cluster}", "/other}").replace("/http}", "/other}")
    file.write_text(begin)
    configuration = Configuration([file], {})
    for text, waiting in (
        (literal, ("clusters.a.sasl.password",)),
        (other, ("clusters.a.sasl.password", "http.password")),
        (begin, ()),
    ):
        file.write_text(text)
        assert configuration.reload().waiting == waiting
    assert configuration.settings.http.password_file == str(tmp_path / "http")
    file.write_text(literal)
    configuration = Configuration([file], {})
    file.write_text(begin)
    assert configuration.reload().waiting == ("clusters.a.sasl.password",), "nobody reads the file"


def test_a_value_from_a_reference_is_not_in_what_waits(file: Path) -> None:
    same = "replication_policy: identity"
    before = BASE.replace("[orders]", f"[orders], {same}")
    back = "  - {source: b, target: a, topics: ['${env:T}']"
    file.write_text(f"{before}{back}, {same}}}\n")
    configuration = Configuration([file], {"T": "hunter2"})
    file.write_text(before.replace("[orders]", "[orders, '${env:T}']") + back + "}\n")
    waiting = str(configuration.reload().waiting)
    assert "(hidden) would come back as (hidden)" in waiting and "hunter2" not in waiting
