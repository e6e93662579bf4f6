"""MirrorMaker's own Java client reads what mirror writes for it, with the default and with the identity policy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import IsolationLevel, Producer

from mirror.commands.translate import of_group, translate
from mirror.config.load import load
from mirror.demo.brokers import LocalCluster
from mirror.groups.checkpoint_writer import CheckpointWriter
from mirror.groups.checkpoints import Checkpoint
from mirror.settings import Flow
from mirror.target.offset_syncs import OffsetSync
from tests.harness import configuration, oracle, topics
from tests.harness.load import Made, produce
from tests.harness.mirror_client import Answer, Question, ask, require
from tests.harness.pair import Pair
from tests.harness.service import OWN_AGAIN, Service
from tests.harness.waiting import PATIENCE

pytestmark = pytest.mark.slow

CLASSES = {
    "default": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    "identity": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
}
FAR = "client-far"  # alias of a cluster before the source
WITHDRAWN = "checkpoints withdrawn: the remote topic was deleted, or created again"
STRANGER = "client-stranger"  # a group that never committed anything


class Case:
    """One flow: its topic, groups that have committed offsets, and what the client says of it."""

    def __init__(self, policy: str, source: str, target: str, data_path: str) -> None:
        self.pair = Pair(source, target, f"client{policy}", f"client{policy}-").by(data_path)
        self.topic = f"{self.pair.prefix}orders"
        self.remote = self.pair.remote(self.topic) if policy == "default" else self.topic
        # One syncs groups, the other does not: the client sees no difference.
        groups = {"sync": policy == "identity", "interval": "1s", "include": [f"{self.pair.prefix}.*"]}
        keys = {"replication_policy": policy, "heartbeats": {"enabled": True}, "groups": groups}
        self.settings = self.pair.settings(keys)
        self.committed: dict[str, dict[int, int]] = {}  # by group and partition, on the source
        self.answer: Answer = {}
        self._properties = {"bootstrap.servers": target, "replication.policy.class": CLASSES[policy]}

    def fill(self) -> None:
        """Transactions of ten records in partition 0, of which every fifth is aborted, 300 records in partition 1."""
        producer = Producer({"bootstrap.servers": self.pair.source, "transactional.id": self.topic, "log_level": 0})
        producer.init_transactions(PATIENCE)
        for number in range(30):
            producer.begin_transaction()
            for record in range(10):
                producer.produce(self.topic, b"%d" % (10 * number + record), partition=0)
            if number % 5 < 4:
                producer.commit_transaction(PATIENCE)
            else:
                producer.flush(PATIENCE)
                producer.abort_transaction(PATIENCE)
        self.pair.produce(self.topic, *[Made(None, b"%d" % n) for n in range(300)], partition=1)

    def commit(self) -> None:
        """Offsets of four groups: at the beginning, among aborted records, among others, at the end of all."""
        ends = oracle.ends(self.pair.source, self.topic, IsolationLevel.READ_COMMITTED)
        for share in (0, 15, 60, 100):
            group = f"{self.pair.prefix}group-{share}"
            self.committed[group] = {partition: end * share // 100 for partition, end in ends.items()}
            topics.commit(self.pair.source, group, self.topic, self.committed[group], metadata=f"of {group}")

    def await_copied(self, service: Service) -> None:
        """Wait until a round has translated all offsets exactly, and the heartbeats have come over."""

        def exact() -> bool:
            flows = json.loads(service.get("/status")[1])["flows"]
            (flow,) = [each for each in flows if each["source"] == self.pair.alias]
            seen = flow["groups"]["groups"] if flow["groups"] else []
            counts = {each["group"]: each["partitions_by_outcome"]["exact"] for each in seen}
            return all(counts.get(group) == len(offsets) for group, offsets in self.committed.items())

        oracle.await_same(self.pair.source, self.pair.target, self.topic, self.remote)
        service.wait_for("exact offsets", exact)
        service.wait_for("heartbeats", lambda: any(self.pair.copied("heartbeats").values()))
        service.wait_for("the topic of far heartbeats", lambda: self.pair.copied(f"{FAR}.heartbeats"))

    def question(self, groups: Iterable[str], **more: str) -> Question:
        """What the client is asked."""
        return Question({**self._properties, **more}, self.pair.alias, list(groups), [self.pair.alias, FAR, "nowhere"])


@dataclass(frozen=True)
class Asked:
    """A flow of each policy. `unnamed` is what the client says of the second one without `source.cluster.alias`."""

    service: Service
    default: Case
    identity: Case
    unnamed: Answer


@pytest.fixture(scope="module")
def asked(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    data_path: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Asked]:
    """One service with both flows, and one JVM with all questions."""
    require()
    source, target = source_cluster.bootstrap, target_cluster.bootstrap
    default, identity = cases = [Case(policy, source, target, data_path) for policy in CLASSES]
    topics.create(source, f"{FAR}.heartbeats")
    for each in cases:
        topics.create(source, each.topic, 2)
    settings = configuration.together(default.settings, identity.settings)
    with Service(settings, tmp_path_factory.mktemp("client")) as service:
        for each in cases:
            each.fill()
            each.commit()
        for each in cases:
            each.await_copied(service)
        named = {"source.cluster.alias": identity.pair.alias}  # only the identity policy knows this key
        default.answer, identity.answer, unnamed = ask(
            default.question([*default.committed, STRANGER]),
            identity.question([*identity.committed, STRANGER], **named),
            identity.question(list(identity.committed)[1:2]),
        )
        yield Asked(service, default, identity, unnamed)
        assert service.terminate() == 0, service.tail()
        assert not service.noise
    for name in ("heartbeats", f"{FAR}.heartbeats"):
        topics.delete(source, name)


@pytest.fixture(params=CLASSES)
def case(asked: Asked, request: pytest.FixtureRequest) -> Case:
    return asked.default if request.param == "default" else asked.identity


def flow_of(asked: Asked, case: Case) -> Flow:
    (found,) = [flow for flow in load(asked.service.file).flows if flow.source.alias == case.pair.alias]
    return found


def test_the_client_translates_offsets_exactly(asked: Asked, case: Case) -> None:
    flow = flow_of(asked, case)
    here, there = oracle.read(case.pair.source, case.topic), oracle.read(case.pair.target, case.remote)
    for group, offsets in case.committed.items():
        ours = translate(flow, of_group(flow, group))
        translated = {each.partition.partition: each.translated for each in ours}
        wanted = [[case.remote, partition, downstream, f"of {group}"] for partition, downstream in translated.items()]
        assert sorted(case.answer["translateOffsets"][group]) == wanted
        assert translated.keys() == offsets.keys()
        for partition, downstream in translated.items():
            assert downstream is not None
            left = [record.value for record in here[partition] if record.offset >= offsets[partition]]
            assert [record.value for record in there[partition] if record.offset >= downstream] == left
    assert case.answer["translateOffsets"][STRANGER] == []


def test_heartbeats_tell_which_clusters_are_upstream(case: Case) -> None:
    alias = case.pair.alias
    assert {alias, FAR} <= set(case.answer["upstreamClusters"])
    assert case.answer["replicationHops"] == {alias: 1, FAR: 2, "nowhere": -1}
    assert {f"{alias}.heartbeats", f"{alias}.{FAR}.heartbeats"} <= set(case.answer["heartbeatTopics"])
    sources = {source for source, target, _ in case.answer["heartbeats"]}
    assert alias in sources and {target for _, target, _ in case.answer["heartbeats"]} == {"backup"}
    assert all(0 <= time.time() - timestamp / 1000 < 3600 for *_, timestamp in case.answer["heartbeats"])


def test_checkpoint_topics_and_remote_topics(asked: Asked, case: Case) -> None:
    flow = flow_of(asked, case)
    assert flow.checkpoint_topic in case.answer["checkpointTopics"]
    alias, found = case.pair.alias, case.answer["remoteTopics"]
    copies = {case.remote, f"{alias}.heartbeats", f"{alias}.{FAR}.heartbeats"}
    assert copies <= set(found)
    # To the client a topic is internal whose name begins with mm2 and ends in .internal, and one of checkpoints.
    strange = set(flow.own_topics) & set(found)
    assert strange == {name for name in flow.own_topics if name.startswith("mirror-")}
    of_source = set(case.answer["remoteTopicsOfSource"])
    if flow.replication_policy == "default":
        assert of_source == copies
    else:  # to the identity policy every topic that has no heartbeats comes from the source that it was told
        assert copies | strange <= of_source


def test_the_identity_policy_that_was_told_no_source_knows_no_remote_topics(asked: Asked) -> None:
    """It still knows the remote topics of heartbeats, because their names tell the source."""
    told, unnamed, case = asked.identity.answer, asked.unnamed, asked.identity
    for same in ("upstreamClusters", "replicationHops", "heartbeatTopics", "checkpointTopics"):
        assert unnamed[same] == told[same]
    ((group, offsets),) = unnamed["translateOffsets"].items()
    assert len(offsets) == 2 and sorted(offsets) == sorted(told["translateOffsets"][group])
    assert set(unnamed["remoteTopics"]) == set(told["heartbeatTopics"]) - {"heartbeats"}
    assert case.remote not in unnamed["remoteTopicsOfSource"]


def test_each_side_reads_the_others_offset_syncs(asked: Asked, case: Case) -> None:
    stored = oracle.read(case.pair.target, flow_of(asked, case).offset_syncs_topic)[0]
    theirs = case.answer["offsetSyncs"]
    assert 10 < len(theirs) <= len(stored), "heartbeats go on, and so do their syncs"
    for record, (fields, key, value) in zip(stored, theirs, strict=False):
        assert record.key is not None and record.value is not None
        assert OffsetSync.decode(record.key, record.value) == OffsetSync(*fields)
        assert OffsetSync.decode(bytes.fromhex(key), bytes.fromhex(value)) == OffsetSync(*fields)
    assert {fields[0] for fields, *_ in theirs} >= {case.topic}


def test_checkpoints_come_back_after_their_topic_was_deleted(asked: Asked) -> None:
    case = asked.identity
    topic, target = flow_of(asked, case).checkpoint_topic, case.pair.target

    def written() -> set[bytes | None]:
        return {record.key for record in oracle.read(target, topic)[0]}

    before = written()
    assert len(before) == sum(map(len, case.committed.values()))
    topics.delete(target, topic)
    asked.service.wait_for_event(OWN_AGAIN, topic=topic)
    asked.service.wait_for("all checkpoints", lambda: written() == before)


def test_checkpoints_of_an_earlier_leader_that_have_become_wrong_are_withdrawn(
    source_cluster: LocalCluster, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """MirrorMaker's client then gives an offset at which a group passes over nothing. It can't read a deleted one."""
    require()
    pair = Pair(source_cluster.bootstrap, target_cluster.bootstrap, f"cp{prefix[-7:-1]}", prefix)
    file = tmp_path / "mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings()))
    (flow,) = load(file).flows
    topics.create(pair.target, flow.checkpoint_topic, cleanup_policy="compact")
    for other in (flow.offset_syncs_topic, pair.remote("heartbeats")):  # the client is asked about them, too
        topics.create(pair.target, other)
    again, deleted = topics.create(pair.target, pair.remote("again")), pair.remote("deleted")
    produce(pair.target, again, [Made(None, b"%d" % n) for n in range(10)])
    topics.remove_records(pair.target, again, 2)
    stand = [
        Checkpoint(f"{name}-group", remote, 0, 100, at, "mine")
        for name, remote, at in (("wrong", again, 11), ("right", again, 10), ("gone", deleted, 11))
    ]
    records = [Made(stand[0].key(), b"no checkpoint"), *(Made(each.key(), each.value()) for each in stand)]
    produce(pair.target, flow.checkpoint_topic, [*records, Made(b"no key", stand[0].value())])
    groups = [each.group for each in stand]
    question = Question({"bootstrap.servers": pair.target}, pair.alias, groups)
    with closing(CheckpointWriter(flow)) as writer:
        for _ in range(3):
            writer.write(())
    (answer,) = ask(question)
    wanted = {"wrong-group": [again, 2], "right-group": [again, 10], "gone-group": [deleted, 0]}
    assert answer["translateOffsets"] == {name: [[topic, 0, at, "mine"]] for name, (topic, at) in wanted.items()}
    assert len(oracle.read(pair.target, flow.checkpoint_topic)[0]) == len(records) + 3, "two have replaced others"


def test_what_the_client_says_once_a_remote_topic_was_created_again(asked: Asked) -> None:
    """As long as nobody has decided about the partitions: nothing of the old topic, which would pass over records."""
    case, target = asked.default, asked.default.pair.target
    flow, mine = flow_of(asked, case), asked.default.pair.prefix
    topics.recreate(target, case.remote, 2)

    def withdrawn() -> bool:
        records = oracle.read(target, flow.checkpoint_topic)[0]
        newest = {record.key: Checkpoint.decode(record.key or b"", record.value or b"") for record in records}
        return {each.downstream for each in newest.values() if each.group.startswith(mine)} == {0}

    asked.service.wait_for("all checkpoints of the old topic are withdrawn", withdrawn)
    (answer,) = ask(case.question(case.committed))
    for group, offsets in case.committed.items():
        assert {each.translated for each in translate(flow, of_group(flow, group)) if each.offset} <= {None}
        wanted = [[case.remote, partition, 0, f"of {group}"] for partition in offsets]
        assert sorted(answer["translateOffsets"][group]) == wanted
    asked.service.wait_for_event(WITHDRAWN, topic=case.remote)
