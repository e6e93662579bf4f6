"""A batch is transformed as far as time and bytes allow, and up to the record for which the transform fails."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from confluent_kafka import Message

from mirror import transform
from mirror.clock import Clock
from mirror.errors import TransformUnusable
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.kafka.record_headers import UNREADABLE, weights
from mirror.model import Partition
from mirror.task.transforming import EARLY_MAX, HANGS_AFTER, TIME_MAX, Transformed, Transforming, import_early
from mirror.timing import SILENCE
from mirror.user_code import described

HERE = Path(__file__).name
SHOP = "tests.transforms.shop_transforms"


class Ticking(Clock):
    """A clock that goes on by `step` at each look."""

    def __init__(self, step: float = 0.0) -> None:
        self.time, self.step = 0.0, step

    def monotonic(self) -> float:
        self.time += self.step
        return self.time


def batch(*values: bytes | None, headers: Any = None, first: int = 0) -> ConsumedBatch:
    messages = [Message("t", 0, first + n, b"k", value, None, timestamp=(1, 5)) for n, value in enumerate(values)]
    keys, count = [b"k"] * len(values), len(values)
    found = [headers] * count
    offsets = list(range(first, first + count))
    return ConsumedBatch(messages, keys, found, offsets, [5] * count, sum(weights(messages, keys, found)))


def transformed(name: str, given: ConsumedBatch, max_bytes: int = 10**6, clock: Clock | None = None) -> Transformed:
    return Transforming(f"{SHOP}.{name}", Partition("t", 0), clock or Ticking()).apply(given, max_bytes, lambda: None)


def test_records_are_dropped_and_changed() -> None:
    given = batch(b"a", b"b", None, b"d", headers=[("h", b"1")])
    done = transformed("thirds", given)
    assert done.consumed is given and not done.failure and done.copied is not None
    copied = done.copied
    assert (copied.offsets, list(copied.values)) == ([0, 2, 3], [b"<a>", b"<>", b"<d>"])
    assert copied.keys == [b"k"] * 3 and copied.timestamps == [5] * 3
    assert copied.headers == [[("h", b"1"), ("by", b"thirds")]] * 3
    assert [message.offset() for message in copied.messages] == copied.offsets
    assert copied.value_bytes == 8
    assert copied.weight == 3 + 8 + 3 * (2 + 8 + 2 * 150)
    assert done.consumed.next_offset == 4


def test_what_is_not_changed_weighs_the_same() -> None:
    given = batch(b"a", None, headers=[("h", None)])
    copied = transformed("same", given).copied
    assert copied is not None and copied.weight == given.weight
    assert copied.value_bytes == given.value_bytes == 1 and list(copied.values) == list(given.values)


def test_all_can_be_dropped() -> None:
    given = batch(b"a", b"b")
    assert transformed("nothing", given) == Transformed(given)


def test_what_comes_before_a_failure_is_copied_first() -> None:
    done = transformed("thirds", batch(b"a", b"b", b"bad", b"d"))
    assert (done.consumed.offsets, done.failure) == ([0, 1], "")
    assert done.copied is not None and done.copied.offsets == [0]
    done = transformed("thirds", batch(b"b", b"bad", first=1))
    assert (done.consumed.offsets, done.copied, done.failure) == ([1], None, ""), "dropped: only a position"
    done = transformed("thirds", batch(b"bad", b"d", first=2))
    assert done.consumed.offsets == [2] and done.copied is None
    assert f"the transform {SHOP}.thirds raised ValueError at shop_transforms.py:" in done.failure


def test_headers_that_can_not_be_read_are_a_failure_of_their_record() -> None:
    done = transformed("same", batch(b"a", headers=UNREADABLE))
    assert done.consumed.offsets == [0] and "not UTF-8" in done.failure


def test_a_batch_does_not_outgrow_its_limit_by_more_than_a_record() -> None:
    done = transformed("same", batch(*[b"x" * 10] * 9), max_bytes=20)
    assert done.consumed.offsets == [0, 1]
    assert done.consumed.weight == 22


def test_a_slow_transform_makes_small_batches() -> None:
    transforming = Transforming(f"{SHOP}.same", Partition("t", 0), Ticking(TIME_MAX / 4))
    assert transforming.apply(batch(*[b"x"] * 9), 10**6, lambda: None).consumed.offsets == [0, 1, 2, 3, 4]
    assert transforming.is_slow
    assert Transforming(f"{SHOP}.same", Partition("t", 0), Ticking()).is_slow is False


def test_one_that_hangs_names_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []

    def progressed() -> None:
        said.append([transforming.hangs(HANGS_AFTER)])

    def hangs(record: transform.Record) -> transform.Record:
        said.append([transforming.hangs(seconds) for seconds in (HANGS_AFTER - 1, HANGS_AFTER)])
        return record

    monkeypatch.setattr("mirror.task.transforming.load", lambda path: transform.Transform(path, hangs))
    transforming = Transforming("shop.hangs", Partition("t", 0), Ticking())
    transforming.apply(batch(b"a", first=12), 1, progressed)
    (before,), _, (early, late), (after,) = said  # the second one is about the import
    assert before == early == "" and after == late, "the step is young again before the record is forgotten"
    assert "shop.hangs does not return for the record at offset 12" in late
    assert transforming.hangs(HANGS_AFTER) == "", "it has returned"


def test_one_that_can_not_be_imported() -> None:
    with pytest.raises(TransformUnusable):
        Transforming("no_such_module.f", Partition("t", 0), Ticking()).apply(batch(b"a"), 1, lambda: None)


def test_an_import_that_hangs_is_told_and_ends_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def progressed() -> None:
        said.append(transforming.hangs(HANGS_AFTER))

    def loaded(path: str) -> transform.Transform:
        said.extend([transforming.hangs(HANGS_AFTER - 1), transforming.hangs(HANGS_AFTER)])
        raise TransformUnusable(path)

    monkeypatch.setattr("mirror.task.transforming.load", loaded)
    transforming = Transforming("shop.masked", Partition("t", 0), Ticking())
    with pytest.raises(TransformUnusable):
        transforming.apply(batch(b"a"), 1, progressed)
    before, early, late, after = said
    assert before == early == "" and after == late == "to import the transform shop.masked has taken more than 30 s"
    assert transforming.hangs(HANGS_AFTER) == "", "it has returned"


def test_transforms_are_imported_early_whatever_is_wrong_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def loaded(path: str) -> None:
        tried.append(path)
        raise TransformUnusable(path)

    monkeypatch.setattr("mirror.task.transforming.load", loaded)
    import_early(("a.f", "b.g"))
    assert tried == ["a.f", "b.g"]


def test_nobody_waits_long_for_an_early_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on nevertheless. A task that says nothing for longer is taken for a hung one."""
    goes_on, tried = threading.Event(), threading.Event()

    def loaded(_: str) -> None:
        goes_on.wait(10)
        tried.set()

    monkeypatch.setattr("mirror.task.transforming.load", loaded)
    import_early(("a.f",), 0.01)
    assert not tried.is_set()
    goes_on.set()
    assert tried.wait(10)
    assert EARLY_MAX < SILENCE


class Strange(SyntaxError):
    """Its file has no name, but contents."""

    def __init__(self) -> None:
        super().__init__("hunter2", (b"hunter2", 1, 1, "hunter2"))  # type: ignore[arg-type]


def parses(record: transform.Record) -> None:
    ET.fromstring(record.value or b"")


def evaluates(record: transform.Record) -> None:
    ast.literal_eval((record.value or b"").decode())


def compiles(record: transform.Record) -> None:
    compile(record.value or b"", "hunter2", "exec")


def is_strange(_: transform.Record) -> None:
    raise Strange


@pytest.mark.parametrize(
    ("function", "error"),
    [(parses, "ParseError"), (evaluates, "SyntaxError"), (compiles, "SyntaxError"), (is_strange, "Strange")],
)
def test_a_syntax_error_in_a_record_is_one_of_the_transform(
    function: Callable[[transform.Record], None], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the line of the transform, not what the error says of itself, which may be a part of the record."""
    monkeypatch.setattr("mirror.task.transforming.load", lambda path: transform.Transform(path, function))
    done = Transforming("shop.f", Partition("t", 0), Ticking()).apply(batch(b"<hunter2"), 1, lambda: None)
    line = function.__code__.co_firstlineno + 1
    assert f"the transform shop.f raised {error} at {HERE}:{line} " in done.failure and "hunter2" not in done.failure


@pytest.mark.parametrize(
    ("file", "line", "where"),
    [("/shop/masks.py", 3, "masks.py:3"), (b"hunter2", 3, "the call"), ("hunter2", None, "the call")],
)
def test_the_place_in_a_module_that_can_not_be_compiled(file: Any, line: Any, where: str) -> None:
    error = SyntaxError("hunter2")
    error.filename, error.lineno = file, line
    assert described(error) == f"SyntaxError at {where} (its text may hold a secret, so it is not shown)"
