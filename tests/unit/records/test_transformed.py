"""What verify compares of a topic with a transform: what copying makes of the source's records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.batches.records import Content, encode
from mirror.commands.verify.digests import Digester, Stretch
from mirror.errors import MirrorError, TransformUnusable
from mirror.records.transformed import transformed
from mirror.settings import Cluster

SHOP = "tests.transforms.shop_transforms"


def records(*contents: Content | None) -> Iterator[tuple[int, int, bytes | None]]:
    for offset, content in enumerate(contents):
        yield offset, 1_000 + offset, None if content is None else encode(content)


def content(value: bytes | None, *headers: tuple[bytes | None, bytes | None]) -> Content:
    return Content(b"key", value, headers)


def test_records_are_dropped_and_changed() -> None:
    by = (b"by", b"thirds")
    given = records(content(b"a", (b"h", None)), content(b"b"), content(None), content(b"d"))
    expected = [
        (0, 1_000, encode(content(b"<a>", (b"h", None), by))),
        (2, 1_002, encode(content(b"<>", by))),
        (3, 1_003, encode(content(b"<d>", by))),
    ]
    assert list(transformed(f"{SHOP}.thirds", "t", 0, given)) == expected


def test_a_record_that_is_not_copied_equals_no_other() -> None:
    """The transform fails for it, or mirror can't read its headers."""
    given = records(content(b"bad"), None, content(b"x", (b"\xff", b"")))
    assert [each[2] for each in transformed(f"{SHOP}.thirds", "t", 0, given)] == [None, None, None]


def test_names_of_headers_are_cut_for_the_transform_and_whole_for_the_comparison() -> None:
    given = content(b"x", (b"a\0b", b"1"))
    assert list(transformed(f"{SHOP}.same", "t", 0, records(given))) == [(0, 1_000, encode(given))]
    ((_, _, changed),) = transformed(f"{SHOP}.thirds", "t", 0, records(given))
    assert changed == encode(content(b"<x>", (b"a", b"1"), (b"by", b"thirds")))


def test_one_that_depends_on_more_than_the_record_is_not_comparable() -> None:
    with pytest.raises(MirrorError, match=r"t-3 is not comparable: .*different things of the record at offset 0"):
        list(transformed(f"{SHOP}.different", "t", 3, records(content(b"x"))))


def test_one_that_is_not_there() -> None:
    with pytest.raises(TransformUnusable):
        list(transformed("no_such_module.f", "t", 3, records(content(b"x"))))


def test_only_the_sources_topics_are_transformed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [content(b"a"), content(b"b"), content(b"c")]
    monkeypatch.setattr("mirror.commands.verify.digests._whole", lambda *_: records(*given))
    clusters = {alias: Cluster(alias, {}, {}, {}) for alias in ("a", "b")}
    digester = Digester(clusters, transforms={("a", "t"): f"{SHOP}.thirds"})

    def entries(alias: str, topic: str) -> list[int]:
        return [entry.offset for entry in digester.entries(Stretch(alias, topic, 0, 0, 3, 3, True))]

    assert (entries("a", "t"), entries("b", "t"), entries("a", "u")) == ([0, 2], [0, 1, 2], [0, 1, 2])
    left = digester.entries(Stretch("a", "t", 0, 0, 3, 3, True))
    given = [content(b"<a>", (b"by", b"thirds")), content(b"<c>", (b"by", b"thirds"))]
    there = [entry.digest for entry in digester.entries(Stretch("b", "t", 0, 0, 3, 3, True))]
    assert there[0] == left[0].digest and there[1] != left[1].digest, "it has another timestamp here"
