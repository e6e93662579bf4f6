"""The ACLs that `mirror check --acls` prints, as brokers get them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class Granted(NamedTuple):
    """ACLs for one user and one resource, in the order of the arguments of `topics.allowed`."""

    resource: ResourceType
    name: str
    user: str
    operations: tuple[AclOperation, ...]
    pattern: ResourcePatternType


def of_command(command: str) -> Iterator[Granted]:
    """The ACLs that a command of kafka-acls.sh adds, by name."""
    words = shlex.split(command)
    given = [(key[2:], value) for key, value in pairwise(words) if key.startswith("--") and value[:2] != "--"]
    user = dict(given)["allow-principal"].removeprefix("User:")
    prefixed = ("resource-pattern-type", "prefixed") in given
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    resources = [(_KINDS[key], name) for key, name in given if key in _KINDS]
    if "--cluster" in words:
        resources.append((ResourceType.BROKER, "kafka-cluster"))
    operations = tuple(
        AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", value).upper()] for key, value in given if key == "operation"
    )
    for resource, name in resources:
        yield Granted(resource, name, user, operations, pattern)
