"""Admin requests about ACLs of topics. Nothing is ever deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mirror.kafka.cluster import NAMES, TIMEOUT, ClusterAdmin, chunks

LITERAL, PREFIXED = ResourcePatternType.LITERAL.name, ResourcePatternType.PREFIXED.name
UNKNOWN = AclOperation.UNKNOWN.name  # an operation, a permission type or a pattern type that librdkafka does not know


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """Who may, or may not, do what with topics. All but the names are Kafka's words in capitals."""

    name: str  # of a topic, or the beginning of names if the pattern is PREFIXED
    principal: str  # such as User:billing
    operation: str
    permission: str = AclPermissionType.ALLOW.name
    pattern: str = LITERAL
    host: str = "*"

    def __str__(self) -> str:
        """For people: `ALLOW READ on orders to User:billing`."""
        on = f"{self.name}*" if self.pattern == PREFIXED else self.name
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.permission} {self.operation} on {on} to {self.principal}{host}"


class AclAdmin(ClusterAdmin):
    """Requests about ACLs. Every method raises ClusterAway when the cluster does not answer."""

    def topic_acls(self) -> set[Acl]:
        """The ACLs of all topics. Raises KafkaException if the cluster has no authorizer, or does not tell."""
        return {_acl(binding) for binding in self._bindings(ResourceType.TOPIC)}

    def principals(self) -> set[str]:
        """The principals that ACLs name, those of topics left out. Raises KafkaException, as `topic_acls` does."""
        others = self._bindings(ResourceType.ANY)
        return {binding.principal for binding in others if binding.restype is not ResourceType.TOPIC}

    def _bindings(self, kind: ResourceType) -> list[AclBinding]:
        every = AclBindingFilter(
            kind, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        return list(self._answer(self._admin.describe_acls(every, request_timeout=TIMEOUT)))

    def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError]:
        """Create ACLs; one that is there already stays. Returns those that the cluster refuses, with the errors."""
        refused: dict[Acl, KafkaError] = {}
        for some in chunks(acls, NAMES):
            futures = self._admin.create_acls([_binding(acl) for acl in some], request_timeout=TIMEOUT)
            for binding, future in futures.items():
                try:
                    self._answer(future)
                except KafkaException as error:
                    refused[_acl(binding)] = error.args[0]
        return refused


def _acl(binding: AclBinding) -> Acl:
    return Acl(
        name=binding.name,
        principal=binding.principal,
        operation=AclOperation(binding.operation_int).name,
        permission=AclPermissionType(binding.permission_type_int).name,
        pattern=ResourcePatternType(binding.resource_pattern_type_int).name,
        host=binding.host,
    )


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        acl.name,
        ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
