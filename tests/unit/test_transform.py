"""What a user's transform may return, and what is told when it fails."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mirror.errors import TransformFailed, TransformUnusable
from mirror.transform import HEADERS_MAX, Record, Transform, load

RECORD = Record("orders", 3, 7, 1_000, b"key", b"hunter2", (("name", b"value"), ("none", None)))


def called(function: Callable[[Record], object], record: Record = RECORD) -> Record | None:
    return Transform("shop.masked", function)(record)


def test_a_record_is_kept_dropped_or_changed() -> None:
    assert called(lambda record: record) is RECORD
    assert called(lambda _: None) is None
    changed = replace(RECORD, key=None, value=b"", timestamp=2**63 - 1, headers=(("é", None),))
    assert called(lambda _: changed) is changed


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"value": b"x"}, "an object of type dict"),
        (b"hunter2", "an object of type bytes"),
        (replace(RECORD, topic="other"), "another topic, partition or offset"),
        (replace(RECORD, partition=4), "another topic, partition or offset"),
        (replace(RECORD, offset=8), "another topic, partition or offset"),
        (replace(RECORD, timestamp=0), "a timestamp that"),
        (replace(RECORD, timestamp=2**63), "a timestamp that"),
        (replace(RECORD, timestamp=1.5), "a timestamp that"),  # type: ignore[arg-type]
        (replace(RECORD, timestamp=True), "a timestamp that"),
        (replace(RECORD, key="key"), "a key that is neither"),  # type: ignore[arg-type]
        (replace(RECORD, value=bytearray(b"x")), "a value that is neither"),  # type: ignore[arg-type]
        (replace(RECORD, headers={"a": b"b"}), "headers that are no tuple"),  # type: ignore[arg-type]
        (replace(RECORD, headers=(("a", b""),) * (HEADERS_MAX + 1)), "headers that are no tuple"),
        (replace(RECORD, headers=("ab",)), "a header that is no tuple"),  # type: ignore[arg-type]
        (replace(RECORD, headers=(("a", b"", b""),)), "a header that is no tuple"),  # type: ignore[arg-type]
        (replace(RECORD, headers=((b"a", b""),)), "a header's name"),  # type: ignore[arg-type]
        (replace(RECORD, headers=(("a\0b", b""),)), "a header's name"),
        (replace(RECORD, headers=(("\ud800", b""),)), "a header's name"),
        (replace(RECORD, headers=(("a", "b"),)), "a header's value"),  # type: ignore[arg-type]
    ],
)
def test_what_it_returns_is_checked(result: Any, said: str) -> None:
    with pytest.raises(TransformFailed, match=f"the transform shop.masked returned {re.escape(said)}"):
        called(lambda _: result)


def test_sizes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror.transform.SIZE_MAX", 5)
    for large in (replace(RECORD, value=b"123456"), replace(RECORD, key=b"123456")):
        with pytest.raises(TransformFailed, match="at most 5"):
            called(partial(dict.get, {RECORD: large}))
    with pytest.raises(TransformFailed, match="headers of more than 5 bytes"):
        called(lambda _: replace(RECORD, value=b"", headers=(("abc", b"def"),)))


def test_a_record_without_a_timestamp_keeps_none() -> None:
    undated = replace(RECORD, timestamp=-1)
    assert called(replace, undated) == undated


def test_an_exception_is_told_without_its_text() -> None:
    def fails(record: Record) -> None:
        raise ValueError(record.value)

    with pytest.raises(TransformFailed, match=r"raised ValueError at test_transform.py:\d+ \(") as raised:
        called(fails)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__context__ is None, "it would keep the record"


def test_it_can_not_end_the_process() -> None:
    for error in (SystemExit(3), KeyboardInterrupt(), CancelledError()):

        def fails(record: Record, error: BaseException = error) -> None:
            raise error

        with pytest.raises(TransformFailed, match=f"raised {type(error).__name__}"):
            called(fails)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_module.masked", "can't be used: there is no module no_such_module; it must be on PYTHONPATH"),
        (
            "tests.transforms.shop_transforms.missing",
            "can't be used: tests.transforms.shop_transforms has no c",
        ),
        ("tests.transforms.shop_transforms.not_callable", "can't be used: tests.transforms.shop_transforms has no"),
    ],
)
def test_one_that_can_not_be_used(path: str, said: str) -> None:
    with pytest.raises(TransformUnusable, match=f"the transform {path} {said}") as raised:
        load(path)
    assert raised.value.exit_code == 2 and raised.value.blocked


def test_it_is_imported_once() -> None:
    path = "tests.transforms.shop_transforms.same"
    assert load(path) is load(path)
    assert load(path)(RECORD) == RECORD
