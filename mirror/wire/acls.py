"""Asks whether a cluster has an authorizer: where it has none, confluent-kafka 2.16 gives an empty list of ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

DESCRIBE_ACLS = Api("DescribeAcls", 29, 2, 3, flexible=2)
_CLUSTER, _LITERAL, _ANY = 4, 3, 1  # a type of resource, a type of pattern, any operation or permission


def has_authorizer(properties: Mapping[str, str]) -> bool:
    """True if the cluster that these librdkafka properties reach checks permissions. Raises WireError."""

    async def asked() -> bool:
        cluster = Cluster(access(properties))
        try:
            return await cluster.ask(describe_acls()) != CODES["SECURITY_DISABLED"]
        finally:
            cluster.close()

    return asyncio.run(asked())


def describe_acls() -> Request[int]:
    """Ask for the ACLs of the cluster itself. The answer: an error code, 0 if we may see them."""

    def write(writer: Writer) -> None:
        writer.pack("b", _CLUSTER).string("kafka-cluster").pack("b", _LITERAL)
        writer.string(None).string(None).pack("bb", _ANY, _ANY).tags()  # of every principal, from every host

    def read(answer: Cursor) -> int:
        answer.throttle()
        error = answer.int16()
        answer.rest()
        return error

    return Request(DESCRIBE_ACLS, write, read)
