"""What a user's transform may return, and what is told when it fails."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from mirror.errors import TransformFailed, TransformUnusable
from mirror.transform import HEADERS_MAX, Record, Transform, load

RECORD = Record("orders", 3, 7, 1_000, b"key", b"hunter2", (("name", b"value"), ("none", None)))


class Text(str):
    """Equal to a text, and none."""


class NeverEqual:
    """What can't even be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("hunter2")

    __hash__ = None  # type: ignore[assignment]


class Headers(tuple[Any, ...]):
    """What has no headers when they are checked, and bad ones later."""

    def __iter__(self) -> Iterator[Any]:
        raise ValueError("hunter2")


class Pair(tuple[Any, ...]):
    """The same for one header."""


class Changing(Record):
    """A record that may have other fields each time it is asked."""


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
        (Changing("orders", 3, 7, 1_000, b"key", b"hunter2"), "an object of type Changing"),
        (replace(RECORD, topic="other"), "another topic, partition or offset"),
        (replace(RECORD, partition=4), "another topic, partition or offset"),
        (replace(RECORD, offset=8), "another topic, partition or offset"),
        (replace(RECORD, offset=7.0), "another topic, partition or offset"),  # type: ignore[arg-type]
        (replace(RECORD, partition=Decimal(3)), "another topic, partition or offset"),  # type: ignore[arg-type]
        (replace(RECORD, topic=Text("orders")), "another topic, partition or offset"),
        (replace(RECORD, topic=NeverEqual()), "another topic, partition or offset"),  # type: ignore[arg-type]
        (replace(RECORD, offset=NeverEqual()), "another topic, partition or offset"),  # type: ignore[arg-type]
        (replace(RECORD, timestamp=1000.0), "a timestamp that"),  # type: ignore[arg-type]
        (replace(RECORD, timestamp=NeverEqual()), "a timestamp that"),  # type: ignore[arg-type]
        (replace(RECORD, timestamp=0), "a timestamp that"),
        (replace(RECORD, timestamp=2**63), "a timestamp that"),
        (replace(RECORD, timestamp=1.5), "a timestamp that"),  # type: ignore[arg-type]
        (replace(RECORD, timestamp=True), "a timestamp that"),
        (replace(RECORD, key="key"), "a key that is neither"),  # type: ignore[arg-type]
        (replace(RECORD, value=bytearray(b"x")), "a value that is neither"),  # type: ignore[arg-type]
        (replace(RECORD, headers={"a": b"b"}), "headers that are no tuple"),  # type: ignore[arg-type]
        (replace(RECORD, headers=(("a", b""),) * (HEADERS_MAX + 1)), "headers that are no tuple"),
        (replace(RECORD, headers=Headers()), "headers that are no tuple"),
        (replace(RECORD, headers=(Pair(("a", b"")),)), "a header that is no tuple"),
        (replace(RECORD, headers=NeverEqual()), "headers that are no tuple"),  # type: ignore[arg-type]
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


def test_one_of_an_undated_record_is_none_of_another_type() -> None:
    """It would be no whole number, and equal to one all the same."""
    undated = replace(RECORD, timestamp=-1)
    with pytest.raises(TransformFailed, match="a timestamp that"):
        called(lambda record: replace(record, timestamp=-1.0), undated)  # type: ignore[arg-type]
    with pytest.raises(TransformFailed, match="another topic, partition or offset"):
        called(lambda record: replace(record, partition=True), replace(RECORD, partition=1))


def test_a_result_that_can_not_even_be_looked_at_is_a_failure() -> None:
    class Odd(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise ValueError("hunter2")

    class Result(metaclass=Odd):
        pass

    for result in (object.__new__(Record), Result()):
        with pytest.raises(TransformFailed, match=r"raised (AttributeError|ValueError) at ") as raised:
            called(partial(lambda result, _: result, result))
        assert "hunter2" not in str(raised.value) and raised.value.__context__ is None


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
