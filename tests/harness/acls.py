"""ACLs for tests: those that `mirror check --acls` prints, and what users may do meanwhile."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.harness.topics import admin
from tests.harness.waiting import PATIENCE, until

_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class Granted(NamedTuple):
    """ACLs for one user and one resource, in the order of the arguments of `allowed`."""

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


def _give(bootstrap: str, acls: Sequence[AclBinding]) -> None:
    """Create ACLs, and wait until a broker judges by them: the answer is the controller's."""
    for future in admin(bootstrap).create_acls(list(acls)).values():
        future.result(PATIENCE)
    of_any = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    until("the ACLs", lambda: set(acls) <= set(admin(bootstrap).describe_acls(of_any).result(PATIENCE)))


@contextlib.contextmanager
def allowed(
    bootstrap: str,
    resource: ResourceType,
    name: str,
    user: str,
    operations: Sequence[AclOperation] = (AclOperation.ALL,),
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> Iterator[None]:
    """A user may do this, else everything, with this resource, `*`: with all of its kind, meanwhile."""
    who, allow = f"User:{user}", AclPermissionType.ALLOW
    acls = [AclBinding(resource, name, pattern, who, "*", operation, allow) for operation in operations]
    _give(bootstrap, acls)
    try:
        yield
    finally:
        same = [AclBindingFilter(resource, name, pattern, who, "*", operation, allow) for operation in operations]
        for future in admin(bootstrap).delete_acls(same).values():
            future.result(PATIENCE)


@contextlib.contextmanager
def forbidden(bootstrap: str, resource: ResourceType, name: str, operation: AclOperation) -> Iterator[None]:
    """Nobody but super users may do this meanwhile; all else is allowed. For clusters that allow what no ACL names."""

    def acl(what: AclOperation, permission: AclPermissionType) -> AclBinding:
        pattern = ResourcePatternType.LITERAL
        return AclBinding(resource, name, pattern, "User:*", "*", what, permission)

    bindings = [acl(AclOperation.ALL, AclPermissionType.ALLOW), acl(operation, AclPermissionType.DENY)]
    _give(bootstrap, bindings)
    try:
        yield
    finally:
        any_acl = AclBindingFilter(
            resource, name, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        for future in admin(bootstrap).delete_acls([any_acl]).values():
            future.result(PATIENCE)
