"""Which Java options brokers of another release get, and how their jars are fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.demo import kafka_jars
from mirror.demo.jvm import LONG_LIVED, quick_start_options
from mirror.demo.kafka_jars import BROKER, HASHES, KAFKA_VERSION
from tests.harness import kafka_release


def test_only_the_usual_release_starts_from_the_archive() -> None:
    assert kafka_release.java_options(KAFKA_VERSION, LONG_LIVED) == quick_start_options(LONG_LIVED)
    assert kafka_release.java_options("4.1.1", LONG_LIVED) == LONG_LIVED


def test_jars_whose_hashes_are_known_are_compared_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(kafka_jars, "kafka_jars", lambda **chosen: asked.append(chosen))
    kafka_release.fetch("3.9.1")
    assert asked == [{"version": "3.9.1"}]


def test_other_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(artifact: str, version: str, directory: Path) -> None:
        fetched.append(f"{artifact}-{version}")
        (directory / "jars").mkdir()

    monkeypatch.setenv("MIRROR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kafka_jars, "_fetch", fetch)
    assert not (HASHES / f"{BROKER}-0.0.0.sha256").exists()
    for _ in range(2):
        kafka_release.fetch("0.0.0")
    assert fetched == [f"{BROKER}-0.0.0"]
    assert [each.name for each in (tmp_path / "cache").iterdir()] == fetched, "nothing else is left"
