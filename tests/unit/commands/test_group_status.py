"""`mirror status --groups` as people see it."""

from __future__ import annotations

from mirror.commands.group_status import GroupStatus, shown
from tests.unit.status.test_group_overview import stands

FORGED = "x\x1b[2J\nbilling  orders-0  7  0  7  7  exact  -"  # whoever may commit on the source chooses a group's id


def test_a_group_s_id_forges_no_line_and_does_not_steer_the_terminal() -> None:
    status = GroupStatus("primary->backup", (stands(FORGED, 0),), "", {FORGED: f"no offsets of group {FORGED}"}, {})
    lines = shown(status).splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
    assert all(line.startswith("x?[2J?billing") for line in lines[1:])
    assert shown(GroupStatus("primary->backup", (), f"no offsets of group {FORGED}")).isprintable()
