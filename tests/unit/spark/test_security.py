"""What Spark is told so that strangers get nothing, on every kind of master, and what is refused or warned of."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from mirror.config.load import load
from mirror.errors import ConfigError
from mirror.spark.security import is_local, is_master, problems, properties_file, protection, redaction, warnings
from tests.harness.command import mirror

LOCAL = ("local", "local[*]", "local[2]", "local[2, 1000000]")
MANAGED = ("yarn", "k8s://https://host:6443", "k8s://local")
STANDALONE = ("spark://host:7077", "local-cluster[2,1,1024]", "any://other")
SAFE = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
OFF = {"spark.authenticate": "false"}
SECRET = {"spark.authenticate.secret": "x"}

FILE = """\
clusters:
  primary: {bootstrap.servers: "localhost:9092"}
  backup: {bootstrap.servers: "localhost:9093"}
flows:
  - {source: primary, target: backup}
spark:
"""


@pytest.mark.parametrize("master", LOCAL)
def test_a_local_spark_listens_on_loopback_alone(master: str) -> None:
    own = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    assert is_local(master) and protection(master, {}) == SAFE | own
    assert protection(master, OFF) == OFF | own
    assert not [*problems(master, {}), *warnings(master, {})]


@pytest.mark.parametrize("master", MANAGED + STANDALONE)
def test_a_cluster_authenticates_and_encrypts(master: str) -> None:
    assert not is_local(master) and protection(master, {}) == SAFE
    assert protection(master, OFF) == OFF, "Spark does not start with encryption alone"


@pytest.mark.parametrize("master", MANAGED)
def test_where_spark_makes_the_secret_none_is_needed(master: str) -> None:
    assert not [*problems(master, {}), *warnings(master, {})]


@pytest.mark.parametrize("master", STANDALONE)
def test_where_it_does_not_one_is(master: str) -> None:
    for conf in ({}, {"spark.authenticate": "true"}, {"spark.authenticate.secret": " "}):
        ((key, text),) = problems(master, conf)
        assert key == "spark.authenticate.secret" and "required with this master" in text
    assert not [*problems(master, SECRET), *warnings(master, SECRET)]
    assert not list(problems(master, OFF))


@pytest.mark.parametrize("master", LOCAL + MANAGED + STANDALONE)
@pytest.mark.parametrize("written", ["false", "False", "FALSE"])
def test_no_authentication_is_warned_of(master: str, written: str) -> None:
    (said,) = warnings(master, {"spark.authenticate": written})
    assert said.startswith(
        "spark.authenticate is false: whoever reaches Spark's ports can read the clusters' passwords"
    )


def test_what_is_neither_true_nor_false_is_refused() -> None:
    assert [key for key, _ in problems("local", {"spark.authenticate": "no"})] == ["spark.authenticate"]


def test_no_encryption_on_a_cluster_is_warned_of() -> None:
    conf = {"spark.network.crypto.enabled": "false"}
    assert len(list(warnings("yarn", conf))) == 1 and not list(warnings("local", conf))


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.7", "::", "node.example"])
def test_a_local_spark_that_listens_on_the_network_is_warned_of(address: str) -> None:
    (said,) = warnings("local[2]", {"spark.driver.bindAddress": address})
    assert said.startswith(f"spark.driver.bindAddress is {address}: Spark listens on the network")
    assert not list(warnings("spark://host:7077", {"spark.driver.bindAddress": address}))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "localhost", "::1", "[::1]"])
def test_loopback_is_not_warned_of(address: str) -> None:
    assert not list(warnings("local", {"spark.driver.bindAddress": address}))


def refused(folder: Path, spark: str, **environ: str) -> str:
    path = folder / "config.yaml"
    path.write_text(FILE + spark)
    with pytest.raises(ConfigError) as caught:
        load(path, environ)
    (problem,) = caught.value.problems
    return problem.removeprefix(f"{path}:")


def test_validate_says_where_the_secret_is_missing(tmp_path: Path) -> None:
    problem = refused(tmp_path, "  master: spark://host:7077\n  conf: {}\n")
    assert problem.startswith("8: spark.conf.spark.authenticate.secret: required with this master, but missing")
    problem = refused(tmp_path, '  master: spark://host:7077\n  conf: {spark.authenticate.secret: "${env:E}"}\n', E="")
    assert problem.startswith("8: spark.conf.spark.authenticate.secret: required")


def test_verify_with_another_master_needs_its_secret(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(FILE + "  master: local\n")
    ended = mirror("verify", "-c", tmp_path / "config.yaml", "--master", "spark://host:7077")
    assert ended.returncode == 2
    assert "--master spark://host:7077: spark.conf.spark.authenticate.secret: required with this master" in ended.stderr
    ended = mirror("verify", "-c", tmp_path / "config.yaml", "--master", "locl[*]")
    assert (ended.returncode, "--master locl[*]: must be a Spark master" in ended.stderr) == (2, True)


@pytest.mark.parametrize(
    "key",
    [
        "spark.driver.extraJavaOptions",
        "spark.driver.defaultJavaOptions",
        "spark.executor.extraJavaOptions",
        "spark.yarn.am.extraJavaOptions",
        "spark.executor.extraClassPath",
        "spark.app.name",
        "spark.jars",
        "spark.jars.repositories",
        "spark.pyspark.python",
        "spark.rpc.askTimeout",
        "spark.network.timeout",
        "spark.ssl.keyStore",
        "spark.authenticate",
        "spark.executorEnv.TOKEN",
    ],
)
def test_a_reference_is_refused_where_spark_shows_the_value(tmp_path: Path, key: str) -> None:
    problem = refused(tmp_path, f'  conf:\n    {key}: "${{env:HIDDEN}}"\n', HIDDEN="true")
    assert problem.startswith(f"8: spark.conf.{key}: must not hold ${{...}}")


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret",
        "spark.ssl.keyStorePassword",
        "spark.driver.host",
        "spark.driver.port",
        "spark.executor.memory",
        "spark.hadoop.fs.s3a.access.id",
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.any.other",
    ],
)
def test_elsewhere_it_is_taken_and_known(tmp_path: Path, key: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(FILE + f'  conf:\n    spark.plain: "1"\n    {key}: "x${{env:HIDDEN}}"\n')
    spark = load(path, {"HIDDEN": "hidden"}).spark
    assert spark.conf[key] == "xhidden" and spark.references == {key}
    assert pickle.loads(pickle.dumps(spark)) == spark and "hidden" not in repr(spark)


def test_spark_hides_what_it_has_hidden_and_what_comes_from_references() -> None:
    """Java's regular expressions and Python's agree on all that is used here."""
    assert redaction({"spark.note": "x"}, frozenset()) == {}
    both = redaction({"spark.redaction.regex": "mine"}, {"spark.note+", "spark.hadoop.h", "spark.metrics.conf.*.m"})
    (regex,) = both.values()
    assert regex == r"(?:mine)|(?:^|\.)(?:\*\.m|h|spark\.note\+)$"


def test_a_properties_file_has_a_line_for_each_and_nothing_that_java_takes_for_a_mark() -> None:
    """That Java reads it so is asked of a real one: test_spark_network.py."""
    assert properties_file({"spark.a b": "=\n", "spark.c": "\U0001f600"}) == (
        "spark.a\\u0020b=\\u003d\\u000a\nspark.c=\\ud83d\\ude00\n"
    )


def test_a_master_that_does_not_count_is_not_judged(tmp_path: Path) -> None:
    """The application of a spark-submit gets spark-submit's master; what holds for every master still holds."""
    file, submitted = tmp_path / "mirror.yaml", {"PYSPARK_GATEWAY_PORT": "1"}
    file.write_text(FILE + "  master: spark://host:7077\n")
    with pytest.raises(ConfigError, match=r"spark\.authenticate\.secret: required"):
        load(file, {})
    assert load(file, submitted).spark.master == "spark://host:7077"
    file.write_text(FILE + "  conf: {spark.authenticate: maybe}\n")
    with pytest.raises(ConfigError, match="must be true or false"):
        load(file, submitted)


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[ 4 , 2 ]", "local-cluster[2, 1, 1024]", "yarn", "k8s://https://api:443"),
        *("spark://host:7077", "spark://a-b.example:7077,10.0.0.1:7077", "spark://[::1]:7077"),
    ],
)
def test_masters(master: str) -> None:
    assert is_master(master)


@pytest.mark.parametrize(
    "master", ["locl[*]", "LOCAL[*]", "local[0]", "local[]", "local-cluster[2]", "mesos://x", "spark://host", "k8s://"]
)
def test_what_is_no_master_is_refused_and_needs_no_secret(tmp_path: Path, master: str) -> None:
    problem = refused(tmp_path, f"  master: '{master}'\n")
    assert problem.startswith("7: spark.master: must be a Spark master, e.g."), problem
    (tmp_path / "config.yaml").write_text(FILE + f"  master: '{master}'\n")
    assert load(tmp_path / "config.yaml", {"PYSPARK_GATEWAY_PORT": "1"}).spark.master == master, "it does not count"
