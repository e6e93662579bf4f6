"""What executors get: modules of transforms that are not installed."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from mirror.errors import TokenProviderUnusable, TransformUnusable
from mirror.settings import TOKEN_PROVIDER, Cluster, TopicSettings
from mirror.spark import shipping
from tests.unit.test_naming import flow


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "code"
    (place / "shop_of_test" / "deep").mkdir(parents=True)
    (place / "alone_of_test.py").write_text("def f(record): return record\n")
    (place / "beside_of_test.py").write_text("raise SystemExit\n")
    for name in ("__init__.py", "masks.py", "deep/more.py"):
        (place / "shop_of_test" / name).write_text("def f(record): return None\n")
    monkeypatch.syspath_prepend(place)
    return place


def shipped(paths: list[str], directory: Path) -> list[str]:
    ours, *theirs = shipping.archives(paths, directory)
    assert "mirror/transform.py" in zipfile.ZipFile(ours).namelist()
    return [name for archive in theirs for name in zipfile.ZipFile(archive).namelist()]


def test_modules_and_packages_are_shipped_whole(code: Path, tmp_path: Path) -> None:
    paths = ["alone_of_test.f", "shop_of_test.masks.f", "shop_of_test.deep.more.f"]
    package = ["shop_of_test/__init__.py", "shop_of_test/deep/more.py", "shop_of_test/masks.py"]
    os.utime(code / "alone_of_test.py", (0, 0))  # as reproducible images have it; a zip file knows no year before 1980
    assert shipped(paths, tmp_path) == ["alone_of_test.py", *package]


def test_what_is_installed_is_not(tmp_path: Path) -> None:
    assert shipped(["json.loads", "pydantic.BaseModel", "sys.exit"], tmp_path) == []
    assert shipped([], tmp_path) == []


def test_a_run_finds_out_first_whether_they_can_be_imported(code: Path) -> None:
    own = {"t": TopicSettings(None, None, None, None, None, "shop_of_test.deep.more.f")}
    shipping.check([flow(), flow(transform="alone_of_test.f", topic_settings=own)])
    for path in ("beside_of_test.f", "shop_of_test.missing.f", "alone_of_test.g"):
        with pytest.raises(TransformUnusable, match=f"flow primary->backup: the transform {path} can't be used"):
            shipping.check([flow(), flow(transform=path, topic_settings=own)])


def test_token_providers_count_as_well(code: Path, tmp_path: Path) -> None:
    good, bad = (Cluster("a", {TOKEN_PROVIDER: path}, {}, {}) for path in ("alone_of_test.f", "beside_of_test.f"))
    shipping.check([flow(source=good)])
    with pytest.raises(TokenProviderUnusable, match=r"the token provider beside_of_test\.f can't be used"):
        shipping.check([flow(target=bad)])
    assert shipped(["mirror.msk_iam.token"], tmp_path) == [], "it is in our own package"
