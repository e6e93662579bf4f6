"""One API server for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kube import cluster
from tests.kube.client import Client
from tests.kube.control_plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows the kinds of all the chart's objects."""
    with ControlPlane(tmp_path_factory.mktemp("kubernetes")) as plane:
        cluster.prepare(plane.client)
        yield plane


@pytest.fixture
def admin(control_plane: ControlPlane) -> Client:
    """A client that may do everything."""
    return control_plane.client
