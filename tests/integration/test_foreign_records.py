"""Translation where somebody else writes to a remote topic: an answer is right, or it is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.groups.translation import Unknown
from mirror.groups.translator import OPEN, Translator
from mirror.model import Partition
from tests.harness import oracle
from tests.harness.load import Made, produce, producer
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE, until

pytestmark = pytest.mark.slow
Running = tuple[Pair, Service]


@pytest.fixture(scope="module", params=["records", "auto"])
def running(
    request: pytest.FixtureRequest,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, f"fm{request.param}", f"fm{request.param}-")
    with pair.service(tmp_path_factory.mktemp("foreign"), {"data_path": request.param}) as service:
        yield pair, service
        assert service.terminate() == 0, service.tail()


def copy(running: Running, topic: str, *counts: int) -> None:
    """Have records copied, so many in each transaction. A record's value is its upstream offset."""
    pair, service = running
    for count in counts:
        at = len(oracle.read(pair.source, topic).get(0, []))
        pair.produce(topic, *[Made(None, b"%d" % n) for n in range(at, at + count)])
        service.wait_for("copied", lambda end=at + count: service.positions(topic).get(0) == end)  # type: ignore[misc]


def foreign(running: Running, topic: str) -> None:
    pair, _ = running
    produce(pair.target, pair.remote(topic), [Made(None, b"foreign")])


def translator_of(running: Running, topic: str) -> Translator:
    translator = Translator(load(running[1].file).flows[0])
    translator.refresh([Partition(topic, 0)])
    return translator


def right(running: Running, translator: Translator, topic: str, end: int | None = None) -> set[int]:
    """The upstream offsets that are translated. Each answer has to be right, both ways. The copy's end was at `end`."""
    pair, _ = running
    partition, found, last = Partition(topic, 0), set(), -1
    for record in pair.copied(topic)[0]:
        if record.value == b"foreign":
            continue
        up, down = int(record.value or b""), record.offset
        there, back = translator.to_downstream(partition, up), translator.to_upstream(partition, down)
        # The first record that was not copied yet when the positions were read is after the end of the copy.
        assert there.translated in (None, down) or (there.translated == last + 1 and up == end), (there, down)
        assert back.translated in (None, up), (back, up)
        last = down
        if there.translated is not None:
            found.add(up)
    return found


def test_while_it_is_copied_a_record_of_somebody_else_is_never_counted_as_a_copy(running: Running) -> None:
    topic = running[0].topic("meanwhile")
    copy(running, topic, 10, 5)
    foreign(running, topic)
    copy(running, topic, 5)
    with closing(translator_of(running, topic)) as translator:
        copy(running, topic, 5)
        assert right(running, translator, topic, 20) >= {*range(10)}
    with closing(translator_of(running, topic)) as translator:
        assert right(running, translator, topic) >= {*range(10), *range(20, 25)}, "the next one has an entry"


def test_what_was_copied_before_is_translated_and_what_comes_next_too(running: Running) -> None:
    """With the first transaction after a foreign record mirror notices it, and the next one has an entry."""
    topic = running[0].topic("afterwards")
    copy(running, topic, 10, 5, 5)
    foreign(running, topic)
    with closing(translator_of(running, topic)) as translator:
        found = right(running, translator, topic)
        assert found >= {*range(15)}, "on the record path it may be among the last five, which have no place yet"
        assert translator.to_upstream(Partition(topic, 0), 3).translated == 3
    copy(running, topic, 5, 5, 5)
    with closing(translator_of(running, topic)) as translator:
        assert right(running, translator, topic) >= {*range(10), *range(25, 35)}


def test_what_an_open_transaction_of_somebody_else_hides_is_not_known(running: Running) -> None:
    pair, _ = running
    topic = pair.topic("hidden")
    partition = Partition(topic, 0)
    copy(running, topic, 10, 5)
    foreign(running, topic)
    stranger = producer(pair.target, transactional_id=topic, transaction_timeout_ms=900_000)
    stranger.init_transactions(PATIENCE)
    stranger.begin_transaction()
    stranger.produce(pair.remote(topic), b"foreign", partition=0)
    assert stranger.flush(PATIENCE) == 0
    copy(running, topic, 1)
    with closing(translator_of(running, topic)) as translator:
        found = translator.to_downstream(partition, 15)
        assert found.translated is None, "as many records can be read as are to be counted"
        assert found.reason == OPEN.format(remote=Partition(pair.remote(topic), 0))
        assert right(running, translator, topic) >= {*range(10)}
    stranger.commit_transaction(PATIENCE)
    # Its marker is there a moment later: until then the transaction is open.
    until("the marker", lambda: not oracle.hanging(pair.target, pair.remote(topic)))
    with closing(translator_of(running, topic)) as translator:
        found = translator.to_downstream(partition, 15)
        assert (found.translated, found.reason) == (None, Unknown.NOT_EXACT.value)
    copy(running, topic, 5)
    with closing(translator_of(running, topic)) as translator:
        assert right(running, translator, topic) >= {*range(10), *range(16, 21)}


def test_where_nobody_else_writes_everything_is_translated_while_it_is_copied(running: Running) -> None:
    topic = running[0].topic("alone")
    copy(running, topic, 10, 5, 5)
    with closing(translator_of(running, topic)) as translator:
        copy(running, topic, 5, 1)
        assert right(running, translator, topic, 20) >= {*range(20)}
