"""The master URL: a local one has a thread for each flow and forgives failed tasks."""

from __future__ import annotations

import os

import pytest

from mirror.spark.session import TASK_MAX_FAILURES, master

CORES = os.cpu_count() or 1


@pytest.mark.parametrize(
    ("configured", "flows", "threads"),
    [
        ("local", 1, 1),
        ("local", 3, 3),
        ("local[4]", 1, 4),
        ("local[2]", 5, 5),
        ("local[2,7]", 1, 2),
        ("local[2, 7]", 1, 2),
        ("local[*]", 1, CORES),
        ("local[*]", CORES + 1, CORES + 1),
        ("local[*,3]", 1, CORES),
    ],
)
def test_local(configured: str, flows: int, threads: int) -> None:
    assert master(configured, flows) == f"local[{threads},{TASK_MAX_FAILURES}]"


@pytest.mark.parametrize("configured", ["spark://a:7077", "k8s://https://a:6443", "yarn", "local-cluster[2,1,1024]"])
def test_others_are_left_alone(configured: str) -> None:
    assert master(configured, 3) == configured
