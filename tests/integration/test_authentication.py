"""Every way to log in that mirror knows, with brokers that enforce it, and credentials that change while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AclOperation, ResourceType

from mirror.commands.check import permissions, purposes
from mirror.commands.check.flow_checks import FlowChecks
from mirror.commands.check.inspection import Inspector
from mirror.commands.verify.record_reader import RecordReader
from mirror.config.load import load
from mirror.demo.brokers import start_together
from mirror.settings import Flow
from mirror.template import HEARTBEATS
from tests.harness import acls, configuration, oracle, topics
from tests.harness.certificates import self_signed
from tests.harness.command import answer, mirror
from tests.harness.configuration import AUTO, RECORDS
from tests.harness.load import Made
from tests.harness.pair import Pair
from tests.harness.secured import LIMITED, PASSWORD, USER, SecuredCluster, secured_cluster
from tests.harness.service import BLOCKED, FLOW_BLOCKED, FLOW_RETRYING, Service
from tests.harness.together import together
from tests.harness.tokens import TokenServer
from tests.harness.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]

OPERATE = purposes.Purpose.OPERATE
NEW_PASSWORD = "xq7-Hunter-changed"
CODE = Path(__file__).parents[1] / "transforms"
Both = tuple[SecuredCluster, SecuredCluster]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key that signs tokens."""
    return self_signed(tmp_path_factory.mktemp("signer"), "signer").key


@pytest.fixture(scope="module")
def tokens(signer: Path) -> Iterator[TokenServer]:
    """Its tokens are signed, and live for so short that clients need several."""
    with TokenServer(life=20, key=signer) as server:
        yield server


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, signer: Path) -> Iterator[Both]:
    """A source and a target, which ask everybody who they are."""
    directory = tmp_path_factory.mktemp("authentication")
    server, client = (self_signed(directory, name) for name in ("server", "client"))
    found = tuple(
        secured_cluster(name, directory, server, client, signer) for name in ("secured-source", "secured-target")
    )
    start_together(*(each.cluster for each in found))
    try:
        for each in found:
            each.allow()
        yield found[0], found[1]
    finally:
        for each in found:
            each.cluster.stop()


def logins(cluster: SecuredCluster, tokens: TokenServer) -> dict[str, dict[str, str]]:
    """The properties of each way to log in. The fault matrix has SCRAM-SHA-256, too."""
    oidc = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "mirror",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
    }
    own = {"token_provider": "shop_tokens.token", "sasl.oauthbearer.config": tokens.url}
    return {
        "certificate": cluster.with_certificate(),
        "scram": cluster.with_sasl("SCRAM-SHA-512"),
        "oidc": cluster.with_sasl("OAUTHBEARER", **oidc),
        "provider": cluster.with_sasl("OAUTHBEARER", **own),
        "plain": cluster.with_sasl("PLAIN"),
    }


# Of each flow, how it logs in to its source and to its target, and how it copies. Certificates and SCRAM on each path
# are in the test after this one, and test_secured.py copies by records with PLAIN.
WAYS = (
    ("certificate", "provider", RECORDS),
    ("oidc", "scram", RECORDS),
    ("provider", "oidc", AUTO),
    ("scram", "plain", AUTO),
)


def pair_of(both: Both, name: str, prefix: str, data_path: str) -> Pair:
    """A flow whose clusters have aliases of its own, so that it logs in on both sides in its own way."""
    alias = f"{name}{prefix[-7:-1]}"
    source, target = both
    return Pair(
        source.bootstrap,
        target.bootstrap,
        alias,
        f"{name}-{prefix}",
        target_alias=f"to-{alias}",
        data_path=data_path,
    )


def test_each_way_to_log_in_copies_and_checks(
    both: Both, tokens: TokenServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers and producers of both data paths, administration, and the client of our own."""
    monkeypatch.syspath_prepend(CODE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CODE), os.environ.get("PYTHONPATH", "")]))
    source, target = both
    pairs = [pair_of(both, reads, prefix, path) for reads, _, path in WAYS]
    settings = configuration.together(*(pair.settings() for pair in pairs))
    del settings["clusters"]["backup"]
    for flow, pair, (reads, writes, _) in zip(settings["flows"], pairs, WAYS, strict=True):
        flow["target"] = pair.target_alias
        settings["clusters"][pair.alias] = logins(source, tokens)[reads]
        settings["clusters"][flow["target"]] = logins(target, tokens)[writes]
    made = [pair.topic("t") for pair in pairs]
    for pair, topic in zip(pairs, made, strict=True):
        pair.produce(topic, *(Made(b"k", b"%d" % number) for number in range(100)))
    with Service(settings, tmp_path) as service:
        for pair, topic in zip(pairs, made, strict=True):
            pair.await_same(topic)
            pair.assert_path(service)
        found = answer("check", "-c", service.file)["checks"]
        connected = [each for each in found if each["what"] == "connection"]
        assert [each["outcome"] for each in connected] == ["OK"] * 2 * len(WAYS)
        for way, properties in logins(source, tokens).items():
            # With the client of our own, as `mirror verify` reads.
            assert len(list(RecordReader(properties).read(made[0], 0, 0, 100))) == 100, way
        asked = Counter(basic.partition(":")[0] for basic, _ in tokens.asked)
        assert set(asked) == {"mirror", "provider"}, "an OIDC client, and the provider"
        service.wait_for("tokens are fetched anew", lambda: has_fetched_more(tokens, asked))
        for pair, topic in zip(pairs, made, strict=True):
            pair.produce(topic, Made(None, b"more"))
            pair.await_same(topic)
        assert service.metric("mirror_authentication_errors_total", cluster=pairs[0].alias) == 0
        assert service.terminate() == 0, service.tail()
        said = "\n".join([*service.lines, json.dumps(found)])
    for pair, topic in zip(pairs, made, strict=True):
        pair.assert_settled(topic)
    assert PASSWORD not in said and "eyJ" not in said, "neither a password nor a token"


def has_fetched_more(tokens: TokenServer, before: Mapping[str, int]) -> bool:
    """True if each client that had asked for a token has asked again."""
    now = Counter(basic.partition(":")[0] for basic, _ in tokens.asked)
    return all(now[who] > count for who, count in before.items())


def test_new_passwords_and_certificates_are_taken_without_a_restart(both: Both, prefix: str, tmp_path: Path) -> None:
    """Two flows read with a certificate and write with a password, and two the other way round, on each data path."""
    source, target = both
    believed, certificate, key, password = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem", "password"))
    believed.write_bytes(source.server.certificate.read_bytes())
    certificate.write_bytes(source.client.certificate.read_bytes())
    key.write_bytes(source.client.key.read_bytes())
    password.write_text(PASSWORD + "\n")
    files = {"ssl.ca.location": str(believed)}
    own = {**files, "ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    secret = {**files, "sasl.password": f"${{file:{password}}}"}
    paths = (RECORDS, AUTO, AUTO, RECORDS)
    pairs = [pair_of(both, name, prefix, path) for name, path in zip("abcd", paths, strict=True)]
    settings = configuration.together(*(pair.settings() for pair in pairs))
    del settings["clusters"]["backup"]
    shown = {**source.with_certificate(), **own}, {**target.with_certificate(), **own}
    known = source.with_sasl("SCRAM-SHA-512", **secret), target.with_sasl("SCRAM-SHA-512", **secret)
    ends = ((shown[0], known[1]), (known[0], shown[1])) * 2
    for flow, pair, (reads, writes) in zip(settings["flows"], pairs, ends, strict=True):
        flow["target"] = pair.target_alias
        settings["clusters"] |= {pair.alias: reads, flow["target"]: writes}
    made = [pair.topic("t") for pair in pairs]
    for pair, topic in zip(pairs, made, strict=True):
        pair.produce(topic, Made(b"k", b"before"))
    with Service(settings, tmp_path) as service:
        for pair, topic in zip(pairs, made, strict=True):
            pair.await_same(topic)
        server, client = (self_signed(tmp_path, name) for name in ("new-server", "new-client"))
        believed.write_bytes(source.server.certificate.read_bytes() + server.certificate.read_bytes())
        certificate.write_bytes(client.certificate.read_bytes())
        key.write_bytes(client.key.read_bytes())
        password.write_text(NEW_PASSWORD + "\n")
        service.wait_for("each process has seen it", partial(have_changed, service, settings["clusters"]))
        for each in both:
            each.allow(NEW_PASSWORD)
            each.present(server, client)
        # That ends all connections. From then on they believe only the new ones; both at once, for clients that are
        # refused try again without end.
        together(*(each.cluster.stop for each in both))
        start_together(*(each.cluster for each in both))
        for pair, topic in zip(pairs, made, strict=True):
            pair.produce(topic, Made(b"k", b"after"))
            pair.await_same(topic)
        service.wait_for("all answer", partial(all_answer, service, settings["clusters"]))
        taken = {topic: RECORDS if path == RECORDS else "batches" for topic, path in zip(made, paths, strict=True)}
        service.wait_for("each path", lambda: data_paths(service) == taken)
        os.kill(service.pid, signal.SIGHUP)
        service.wait_for_event("configuration reloaded", changed="nothing")
        assert not service.find("these keys changed, and take effect at the next start"), "they are in force"
        assert not service.find(BLOCKED)
        assert service.terminate() == 0, service.tail()
        said = "\n".join(service.lines)
    for pair, topic in zip(pairs, made, strict=True):
        pair.assert_settled(topic)
    assert PASSWORD not in said and NEW_PASSWORD not in said


def have_changed(service: Service, aliases: Collection[str]) -> bool:
    """Both the service and a task, which is a process of its own, have seen that files of these clusters changed."""
    said = "files with passwords or certificates have changed"
    return all(len(service.find(said, cluster=alias)) >= 2 for alias in aliases)


def data_paths(service: Service) -> dict[str, str]:
    """The path of each topic's first partition."""
    flows = json.loads(service.get("/status")[1])["flows"]
    return {topic["topic"]: topic["partitions"][0].get("path") for flow in flows for topic in flow["topics"]}


def all_answer(service: Service, aliases: Collection[str]) -> bool:
    return all(service.metric("mirror_cluster_reachable", cluster=alias) == 1 for alias in aliases)


ALL_OF_IT: dict[str, Any] = {
    "groups": {"sync": True, "interval": "1s"},
    "heartbeats": {"enabled": True},
    "canary": {"enabled": True, "interval": "1s"},
    "sync_acls": True,
    "mirrormaker_offsets": {"enabled": True},
}
Permission = tuple[str, acls.Granted]  # with the alias of the cluster
Kept = dict[Permission, contextlib.ExitStack]


def test_the_printed_acls_are_enough_and_each_that_lacks_is_named(both: Both, prefix: str, tmp_path: Path) -> None:
    """What Kafka does not report is lacking at first: it is granted once the service has named it."""
    source, target = both
    pair = Pair(source.bootstrap, target.bootstrap, f"c{prefix[-7:-1]}", prefix)
    topic, group = pair.topic("t"), f"{prefix}group"
    pair.produce(topic, Made(None, b"one"), Made(None, b"two"))
    topics.commit(source.bootstrap, group, topic, {0: 1})
    settings = pair.settings({**ALL_OF_IT, "groups": {**ALL_OF_IT["groups"], "include": [f"{prefix}.*"]}})
    for alias, cluster in ((pair.alias, source), ("backup", target)):
        settings["clusters"][alias] = cluster.with_sasl("PLAIN") | {"sasl.username": USER}
    (flow,) = load(Service(settings, tmp_path).file).flows
    needed = [(each.cluster.alias, acl) for each in permissions.asked(flow) for acl in acls_of(each)]
    for alias in settings["clusters"]:
        settings["clusters"][alias]["sasl.username"] = LIMITED
    where = {pair.alias: source.bootstrap, "backup": target.bootstrap}
    with contextlib.ExitStack() as stack:
        lacking_at_first = not_reported(flow, pair.remote(topic), needed)
        granted = (each for each in dict.fromkeys(needed) if each not in lacking_at_first)
        kept = {each: grant(stack, where, *each) for each in granted}
        with Service(settings, tmp_path) as service:
            for each, words in lacking_at_first.items():
                service.wait_for(f"{each} is named", partial(is_said, service, each[1], words))
                kept[each] = grant(stack, where, *each)
            pair.await_same(topic)
            service.wait_for(
                "the group", lambda: oracle.committed_position(target.bootstrap, group, pair.remote(topic), 0)
            )
            service.wait_for_event("heartbeats are written again")
            service.wait_for("the canary", lambda: service.metric("mirror_canary_seconds") > 0)
            assert service.terminate() == 0, service.tail()
        (limited,) = load(service.file).flows
        each_that_is_reported_is_named_by_check(limited, kept, partial(grant, stack, where))
    pair.assert_settled(topic)


def each_that_is_reported_is_named_by_check(
    flow: Flow, kept: Kept, allow: Callable[[str, acls.Granted], contextlib.ExitStack]
) -> None:
    """Take away one after the other. All topics are there."""
    inspectors = {each.alias: Inspector(each) for each in (flow.source, flow.target)}
    before = lacking(flow, inspectors)
    for each, granted in list(kept.items()):
        if is_reported(each, kept):
            granted.close()
            # The controller has taken it away; the broker hears of it a little later.
            until(f"{each} is named", partial(is_named, each[1], lambda: lacking(flow, inspectors), before))
            kept[each] = allow(*each)


def test_a_person_needs_no_more_than_is_printed_for_operating(both: Both, prefix: str, tmp_path: Path) -> None:
    source, target = both
    pair = Pair(source.bootstrap, target.bootstrap, f"o{prefix[-7:-1]}", prefix)
    topic = pair.topic("t")
    pair.produce(topic, Made(None, b"one"))
    settings = pair.settings()
    for alias, cluster in ((pair.alias, source), ("backup", target)):
        settings["clusters"][alias] = cluster.with_sasl("PLAIN")
    with contextlib.ExitStack() as stack, Service(settings, tmp_path) as service:
        (flow,) = load(service.file).flows
        pair.await_same(topic)
        for alias in settings["clusters"]:
            settings["clusters"][alias]["sasl.username"] = LIMITED
        theirs = tmp_path / "theirs.yaml"
        theirs.write_text(yaml.safe_dump(settings))
        order = ("pause", "-c", theirs, "--topic", topic)
        assert mirror("status", "-c", theirs).returncode == 1, "it is allowed nothing yet"
        where = {pair.alias: source.bootstrap, "backup": target.bootstrap}
        needed = [(each.cluster.alias, acl) for each in purposes.asked_for(flow, OPERATE) for acl in acls_of(each)]
        kept = {each: grant(stack, where, *each) for each in dict.fromkeys(needed)}
        until("it is paused", lambda: mirror(*order).returncode == 0)
        assert answer("status", "-c", theirs)["flows"][0]["state"] == "running"
        resumed = mirror("resume", "-c", theirs, "--topic", topic)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        kept["backup", acl_of(needed, ResourceType.TOPIC, flow.control_topic, AclOperation.WRITE)].close()
        until("it may not write", lambda: "uthorization failed" in mirror(*order).stderr)
        assert answer("status", "-c", theirs)["flows"][0]["state"] == "running"
        assert service.terminate() == 0, service.tail()


def not_reported(flow: Flow, remote: str, needed: Iterable[Permission]) -> dict[Permission, str]:
    """What Kafka does not report while the topics are not there: Create, and Write on transactional ids.

    In the order in which a service comes to it, each with the beginning of the topic that the service names, or its
    words. `remote` is a remote topic. Describe on transactional ids is not among them, for Write allows it as well.
    """
    said = {
        "mirror-": "mirror-",
        flow.offset_syncs_topic: flow.offset_syncs_topic,
        f"{flow.source.alias}.": remote,
        flow.connect_offsets_topic: flow.connect_offsets_topic,
        f"{flow.group}/": "does not let mirror lead the flow",
        HEARTBEATS: HEARTBEATS,
        flow.canary_topic: flow.canary_topic,
    }
    writing = (ResourceType.TRANSACTIONAL_ID, (AclOperation.WRITE,))
    found = {
        acl.name: (alias, acl)
        for alias, acl in needed
        if acl.operations == (AclOperation.CREATE,) or (acl.resource, acl.operations) == writing
    }
    assert found.keys() == said.keys()
    return {found[name]: said[name] for name in said}


def is_said(service: Service, acl: acls.Granted, words: str) -> bool:
    """True if the log says that what this ACL would allow is not allowed, and what can't be done without it."""
    if acl.resource is ResourceType.TRANSACTIONAL_ID:
        return stopped(service, words, "Transactional Id authorization failed")
    said = (f"{each['msg']} {each.get('topic', '')} {each.get('reason', '')}" for each in service.events)
    refused = (text for text in said if "creat" in text and "uthorization failed" in text)
    return any(word.startswith(words) for text in refused for word in text.split())


def is_reported(one: Permission, kept: Kept) -> bool:
    """True if Kafka reports it when this ACL is missing. It does not if another ACL allows the same.

    test_secured.py has what is said without those for the control topics of other flows.
    """
    _, acl = one
    hidden = acl.resource is ResourceType.TRANSACTIONAL_ID or acl.operations == (AclOperation.CREATE,)
    hidden = hidden or acl.name == permissions.CONTROL_TOPICS
    return not hidden and not is_implied(one, kept)


def is_named(acl: acls.Granted, told: Callable[[], list[str]], before: list[str]) -> bool:
    """True if a line that was not there before names the operation, and what it is for."""
    (operation,) = acl.operations
    word = "".join(part.title() for part in operation.name.split("_"))
    name = "cluster" if acl.resource is ResourceType.BROKER else acl.name
    return any(word in line and name in line for line in told() if line not in before)


def acls_of(need: permissions.Need) -> Iterator[acls.Granted]:
    for command in permissions.commands(need):
        for acl in acls.of_command(command):
            yield from (acl._replace(user=LIMITED, operations=(each,)) for each in acl.operations)


def acl_of(needed: list[tuple[str, acls.Granted]], kind: ResourceType, name: str, what: AclOperation) -> acls.Granted:
    (found,) = {acl for _, acl in needed if (acl.resource, acl.name, acl.operations) == (kind, name, (what,))}
    return found


def grant(stack: contextlib.ExitStack, where: dict[str, str], alias: str, acl: acls.Granted) -> contextlib.ExitStack:
    granted = stack.enter_context(contextlib.ExitStack())
    granted.enter_context(acls.allowed(where[alias], *acl))
    return granted


def is_implied(one: tuple[str, acls.Granted], kept: Kept) -> bool:
    """True if another ACL allows the same.

    Read, Write and Alter allow Describe; Alter Configs allows Describe Configs.
    """
    alias, acl = one
    implying = {
        (AclOperation.DESCRIBE,): (AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER),
        (AclOperation.DESCRIBE_CONFIGS,): (AclOperation.ALTER_CONFIGS,),
    }.get(acl.operations, ())
    return any((alias, acl._replace(operations=(other,))) in kept for other in implying)


def stopped(service: Service, *parts: str) -> bool:
    """True if a flow or a partition has stopped for a reason that has all of these words."""
    said = (FLOW_BLOCKED, FLOW_RETRYING, BLOCKED)
    return any(all(part in each.get("reason", "") for part in parts) for each in service.events if each["msg"] in said)


def lacking(flow: Flow, inspectors: Mapping[str, Inspector]) -> list[str]:
    """What `check` says of permissions."""
    # With each cluster's description come the operations that are allowed on the cluster itself.
    reached = {alias: (inspector, inspector.describe()) for alias, inspector in inspectors.items()}
    checks = takewhile(lambda each: each.what != "clocks", FlowChecks(flow, reached).all())
    return [f"{each.what}: {each.said}; {each.remedy}" for each in checks if each.outcome != "OK"]
