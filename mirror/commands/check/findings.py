"""The lines of `mirror check`: a finding about a flow or a cluster, and the check that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

CheckOutcome = Literal["OK", "WARNING", "FAILED"]


class Finding(NamedTuple):
    """What one check has found, without the flow or cluster that it was about."""

    what: str
    outcome: CheckOutcome
    said: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the answer."""

    scope: str  # a cluster's alias, a flow's name, or "this machine"
    what: str
    outcome: CheckOutcome
    said: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" -> {self.remedy}" if self.remedy else ""
        return f"{self.outcome:<8} {self.scope}: {self.what}: {self.said}{remedy}"
