"""Fixtures for all tests; the rules on skipped tests and on processes that are left over."""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import hypothesis
import psutil
import pytest

from mirror.demo import brokers as local_brokers
from mirror.demo.brokers import LocalCluster, start_together
from mirror.demo.jvm import LONG_LIVED
from mirror.demo.kafka_jars import KAFKA_VERSION
from tests.failpoints.arm import Failpoints
from tests.harness import kafka_release, topics
from tests.harness.configuration import AUTO, DATA_PATHS, RECORDS
from tests.harness.durations import Durations
from tests.harness.left_over import LeftOver
from tests.harness.lots import Lots
from tests.harness.pair import Pair
from tests.harness.programs import CANNOT_RUN
from tests.harness.service import Service

if TYPE_CHECKING:  # pytest loads it as a plugin, and rewrites its assertions only if it was not loaded before
    from tests.harness.shared_services import Addresses

pytest_plugins = ["tests.harness.shared_services"]

hypothesis.settings.register_profile("any machine", deadline=None)  # no test asserts a speed
hypothesis.settings.load_profile("any machine")

ROOT = Path(__file__).parent.parent

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)
_shared_clusters: list[LocalCluster] = []  # once a test has asked for them


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in the tree, apart for each run; those of a failed run stay until the next."""
    os.environ.setdefault("MIRROR_CACHE", str(ROOT / ".cache"))
    if config.option.basetemp is None:
        runs = ROOT / ".cache" / "tests"
        runs.mkdir(parents=True, exist_ok=True)
        for run in runs.iterdir():
            if run.name.isdigit() and not psutil.pid_exists(int(run.name)):
                shutil.rmtree(run, ignore_errors=True)
        config.option.basetemp = str(runs / str(os.getpid()))
    config.pluginmanager.register(LeftOver(config.option.basetemp))
    if config.option.lot is not None:
        number, count = map(int, config.option.lot.split("/"))
        # A port that one of the runs needs again, for a broker that it has stopped, is not free for the other ones.
        local_brokers.PORTS = local_brokers.PORTS[number - 1 :: count]
        config.pluginmanager.register(Lots(number, config.option.taken, config.option.until))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Register what needs pytest's cache, which exists from now on."""
    if session.config.cache is not None:
        session.config.pluginmanager.register(Durations(session.config.cache))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The choice of tests, and of where their brokers run."""
    parser.addoption("--slow", action="store_true", help="also those marked as slow; with CI=true they always run")
    parser.addoption(
        "--containers",
        action="store_true",
        help="run each test that needs no more than brokers' addresses with brokers in containers, too; without this, "
        "only those marked `containers`",
    )
    parser.addoption(
        "--both",
        action="store_true",
        help="run each test that copies records on both data paths; without this, only those marked `both_paths`",
    )
    parser.addoption(
        "--kafka",
        metavar="VERSION",
        default=KAFKA_VERSION,
        help="the release of the two brokers that tests share; what a test starts for itself is of the usual one",
    )
    parser.addoption(
        "--lot",
        metavar="NUMBER/COUNT",
        help="this is one of so many runs at the same time, which share the modules",
    )
    parser.addoption("--taken", type=Path, help="with --lot: a directory, empty at first, that is the same for all")
    parser.addoption(
        "--until",
        type=float,
        default=math.inf,
        help="with --lot: seconds since 1970, after which no test begins that is marked as slow",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on both data paths, or on brokers in containers, too, if it is marked so.

    In containers only if it needs no processes.
    """
    names = metafunc.fixturenames
    if "data_path" in names:
        marked_both, marked_one = map(metafunc.definition.get_closest_marker, ("both_paths", "one_path"))
        both = marked_both or (metafunc.config.option.both and not marked_one)
        # Tests of a module share services, so each needs the parameter, and all of one path run after each other.
        paths, ids = (DATA_PATHS, [pytest.HIDDEN_PARAM, AUTO]) if both else ([RECORDS], [pytest.HIDDEN_PARAM])
        metafunc.parametrize("data_path", paths, ids=ids, indirect=True, scope="module")
    marked = metafunc.definition.get_closest_marker("containers") or metafunc.config.option.containers
    if marked and "where" in names and not {"source_cluster", "target_cluster"}.intersection(names):
        metafunc.parametrize("where", ["local", "container"], indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --slow leave out what is marked so, unless it was named."""
    named = any("::" in argument or argument.endswith(".py") for argument in config.args)
    if config.option.slow or os.environ.get("CI") == "true" or named:
        return
    left_out = [item for item in items if item.get_closest_marker("slow") is not None]
    if left_out:
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_in_the_tree(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("tmp"))


@pytest.fixture(scope="session")
def _clusters(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    directory, version = tmp_path_factory.mktemp("clusters"), pytestconfig.option.kafka
    kafka_release.fetch(version)
    # In the hour of a whole run the second compiler saves a third of the brokers' CPU.
    options = kafka_release.java_options(version, LONG_LIVED)
    source, target = (
        LocalCluster(name, directory, java_options=options, version=version) for name in ("source", "target")
    )
    both = source, target
    start_together(*both)
    _shared_clusters.extend(both)
    yield both
    _shared_clusters.clear()
    for cluster in both:
        cluster.stop()


@pytest.fixture(scope="module", autouse=True)
def _topics_end_with_their_module() -> Iterator[None]:
    """Whoever asks for all topics, as each service does each second, makes the brokers work for each one."""
    yield
    for cluster in _shared_clusters:
        topics.delete_others(cluster.bootstrap, lambda name: name.startswith("__") or "shared" in name)


@pytest.fixture(scope="session")
def source_cluster(_clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """A one-broker cluster shared by all tests: leave it running, and name topics with `prefix`."""
    return _clusters[0]


@pytest.fixture(scope="session")
def target_cluster(_clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """The other shared cluster; started together with `source_cluster`."""
    return _clusters[1]


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A beginning for the names of topics, groups and transactional ids that no other test has."""
    test = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))[:60]
    return f"{test.strip('-')}-{uuid.uuid4().hex[:6]}-"


@pytest.fixture(scope="module")
def data_path(request: pytest.FixtureRequest) -> str:
    """What the flows of a test have as `data_path`. See `pytest_generate_tests`."""
    return str(request.param)


@pytest.fixture
def pair(brokers: Addresses, prefix: str, data_path: str) -> Pair:
    """The shared clusters with a flow of this test's own, for services that it starts itself."""
    alias = f"s{uuid.uuid4().hex[:6]}"
    return Pair(brokers.source, brokers.target, alias, prefix).by(data_path)


@pytest.fixture(scope="module")
def failpoints(tmp_path_factory: pytest.TempPathFactory) -> Failpoints:
    """Failpoints for the services that a module starts with their environment."""
    return Failpoints(tmp_path_factory.mktemp("failpoints"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have a test fail in CI if it is skipped though it could run; say what a shared service did while one failed."""
    report = _judge_skip((yield))
    service = item.funcargs.get("shared_service") if isinstance(item, pytest.Function) else None
    if report.failed and isinstance(service, Service):
        report.sections.append(("shared service", f"{service.tail(200)}\n{service.shown()}"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that is skipped as a whole."""
    return _judge_skip((yield))


def _judge_skip(report: _Report) -> _Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(CANNOT_RUN):
            report.outcome = "failed"
            report.longrepr = (
                f"{reason}\nIn CI a test may only be skipped for a reason that begins with '{CANNOT_RUN}'."
            )
    return report
