"""The process that writes ready-made requests: everything once, in order, to the end."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest

from mirror.batches.headers import walk
from mirror.batches.records import Content
from mirror.wire.cursor import Cursor
from tests.bench import brokers_alone
from tests.harness import batches, fake_broker
from tests.harness.fake_broker import FETCH, METADATA, Answer, FakeBroker, Request

TOPIC, PRODUCE, VERSION = "topic", 0, 12
RECORDS, BATCHES, TOGETHER = 5, 20, 8  # of a batch, of the topic, and of an answer


def log(offset: int) -> bytes:
    """What a Fetch from an offset finds."""
    firsts = range(offset, min(offset + TOGETHER * RECORDS, BATCHES * RECORDS), RECORDS)
    return b"".join(
        batches.batch([(n, n, Content(b"%d" % n, None, ())) for n in range(f, f + RECORDS)]) for f in firsts
    )


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeBroker, FakeBroker]]:
    monkeypatch.setitem(fake_broker.VERSIONS, PRODUCE, (VERSION, VERSION))

    def answers(broker: FakeBroker) -> Answer:
        def answer(api: int, body: bytes) -> bytes:
            if api == METADATA:  # of the topic, or of the brokers alone
                return fake_broker.metadata(TOPIC if TOPIC.encode() in body else "", 1, {1: broker.port})
            return b"any" if api == PRODUCE else fake_broker.fetched(TOPIC, log(fake_broker.position(body)))

        return answer

    with FakeBroker() as source, FakeBroker() as target:
        source.answers, target.answers = answers(source), answers(target)
        yield source, target


def run(source: FakeBroker, target: FakeBroker) -> None:
    here, there = (each.properties["bootstrap.servers"] for each in (source, target))
    brokers_alone.main(here, there, "none", json.dumps([[TOPIC, 0, TOPIC]]))


def written(request: Request) -> bytes:
    """The batch of a Produce request."""
    body = Cursor(memoryview(request.body), VERSION, True)
    body.tags(), body.string(), body.unpack(struct.Struct(">hi"))
    ((_, found),) = body.by_topic(_data, 5)
    return found


def _data(body: Cursor) -> bytes:
    body.int32()
    found = bytes(body.bytes())
    body.tags()
    return found


def test_all_is_fetched_twice_and_written_once(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    source, target = brokers
    run(source, target)
    asked = [fake_broker.position(each.body) for each in source.requests if each.api == FETCH]
    assert asked == [0, 40, 80, 100, 0, 40, 80]
    here = walk(memoryview(log(0) + log(40) + log(80)))
    there = [walk(memoryview(written(each)))[0] for each in target.requests if each.api == PRODUCE]
    assert [bytes(each.payload) for each in there] == [bytes(each.payload) for each in here]
    assert {each.first for each in there} == {0}, "as producers send it"


def test_a_connection_that_is_closed_ends_it(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    source, target = brokers
    usual = target.answers

    def closing(api: int, body: bytes) -> bytes:
        if api == PRODUCE:
            target.disconnect()
        return usual(api, body)

    target.answers = closing
    with pytest.raises((OSError, struct.error)):
        run(source, target)
