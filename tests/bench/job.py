"""What a system is to copy."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirror.demo.brokers import LocalCluster

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Job:
    """What to copy: under an alias of its own, each run meets nothing that an earlier one left."""

    source: LocalCluster
    target: LocalCluster
    directory: Path
    topics: Mapping[str, int]  # partitions of each
    alias: str
    compression: str = "none"
    pattern: str = ""  # of topics that may come later
    far_source: str = ""  # the source's address for the system, if that is far away
    far_target: str = ""  # the target's
    security: Mapping[str, str] = field(default_factory=dict)  # what clients of both clusters need
    slots: int = 0  # tasks that may run at once, if not what the system makes of the machine

    @staticmethod
    def new(source: LocalCluster, target: LocalCluster, directory: Path, topics: Mapping[str, int], **more: Any) -> Job:
        """A job with a fresh alias."""
        return Job(source, target, directory, topics, f"r{next(_numbers)}x{uuid.uuid4().hex[:4]}", **more)

    @property
    def wanted(self) -> str:
        """The regular expression of the topics to copy."""
        return self.pattern or "|".join(self.topics)

    @property
    def reads(self) -> str:
        """Where the system finds the source."""
        return self.far_source or self.source.bootstrap

    @property
    def writes(self) -> str:
        """Where the system finds the target."""
        return self.far_target or self.target.bootstrap

    def remote(self, topic: str) -> str:
        """Its name on the target."""
        return f"{self.alias}.{topic}"
