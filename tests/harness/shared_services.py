"""Services that tests of several modules share, and the brokers between which they mirror: a plugin of pytest's."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import pytest

from mirror.demo.brokers import LocalCluster
from tests.harness import containers
from tests.harness.configuration import AUTO, RECORDS
from tests.harness.lots import needs_of_shared
from tests.harness.pair import Pair
from tests.harness.service import Service

_T = TypeVar("_T")
_Kept = defaultdict[str, contextlib.ExitStack]


@pytest.fixture(scope="session")
def _kept() -> _Kept:
    """What tests share beside the two clusters, by where its brokers run."""
    return defaultdict(contextlib.ExitStack)


@pytest.fixture(scope="module", autouse=True)
def _ends_with_the_last_module_that_needs_it(request: pytest.FixtureRequest, _kept: _Kept) -> Iterator[None]:
    """An idle service, with what its brokers do for it, takes a tenth of a core."""
    yield
    later = itertools.takewhile(lambda item: item.path != request.path, reversed(request.session.items))
    needed = {needs_of_shared(item) for item in later} if _kept else set()
    for where in _kept.keys() - needed:
        _kept.pop(where).close()


def _as_long_as_needed(stack: contextlib.ExitStack, what: contextlib.AbstractContextManager[_T]) -> Iterator[_T]:
    yield stack.enter_context(what)
    stack.close()  # if another lot has the last module, nothing has closed it


class Addresses(NamedTuple):
    """Bootstrap addresses of two clusters that all tests share."""

    source: str
    target: str


@pytest.fixture(scope="session")
def _local_brokers(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Addresses:
    return Addresses(source_cluster.bootstrap, target_cluster.bootstrap)


@pytest.fixture(scope="session")
def _container_brokers(_kept: _Kept) -> Iterator[Addresses]:
    for addresses in _as_long_as_needed(_kept["container"], containers.clusters("source", "target")):
        yield Addresses(*addresses)


@pytest.fixture
def where(request: pytest.FixtureRequest) -> str:
    """Where the brokers of this test run: `local` processes, or in a `container`. See `pytest_generate_tests`."""
    return str(getattr(request, "param", "local"))


@pytest.fixture
def brokers(request: pytest.FixtureRequest, where: str) -> Addresses:
    """The two shared clusters, for a test that needs no more than their addresses."""
    addresses: Addresses = request.getfixturevalue(f"_{where}_brokers")
    return addresses


def _shared(brokers: Addresses, path: str, prefix: str = "") -> Pair:
    """What a shared service mirrors, or those topics of it whose names begin with the prefix, too."""
    return Pair(brokers.source, brokers.target, "shared", f"shared-{prefix}").by(path)


@contextlib.contextmanager
def _service_between(brokers: Addresses, path: str, directories: pytest.TempPathFactory) -> Iterator[Service]:
    pair = _shared(brokers, path)
    with pair.service(directories.mktemp("shared")) as service:
        pair.topic("first")
        yield service.await_plan()
        pair.assert_path(service)
        assert service.terminate() == 0, service.tail()
        assert not service.noise


@pytest.fixture(scope="session")
def local_service(
    _local_brokers: Addresses, _kept: _Kept, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service that all tests share: leave it running. It mirrors what begins with `shared-`."""
    yield from _as_long_as_needed(_kept["local"], _service_between(_local_brokers, RECORDS, tmp_path_factory))


@pytest.fixture(scope="session")
def _local_auto_service(
    _local_brokers: Addresses, _kept: _Kept, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    yield from _as_long_as_needed(_kept["local"], _service_between(_local_brokers, AUTO, tmp_path_factory))


@pytest.fixture(scope="session")
def _container_service(
    _container_brokers: Addresses, _kept: _Kept, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    yield from _as_long_as_needed(_kept["container"], _service_between(_container_brokers, RECORDS, tmp_path_factory))


@pytest.fixture(scope="session")
def _container_auto_service(
    _container_brokers: Addresses, _kept: _Kept, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    yield from _as_long_as_needed(_kept["container"], _service_between(_container_brokers, AUTO, tmp_path_factory))


@pytest.fixture
def shared_service(request: pytest.FixtureRequest, where: str, data_path: str) -> Service:
    """`local_service`, or the like of it that copies in whole batches, or between the brokers in containers."""
    names = {
        ("local", RECORDS): "local_service",
        ("local", AUTO): "_local_auto_service",
        ("container", RECORDS): "_container_service",
        ("container", AUTO): "_container_auto_service",
    }
    service: Service = request.getfixturevalue(names[where, data_path])
    return service


@pytest.fixture
def shared(brokers: Addresses, shared_service: Service, prefix: str, data_path: str) -> Pair:
    """Topics of this test's own that the shared service mirrors."""
    return _shared(brokers, data_path, prefix)
