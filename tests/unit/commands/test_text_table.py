"""Tables of names that anybody may have chosen."""

from __future__ import annotations

from mirror.commands.text_table import LONGEST, WIDEST, table


def test_a_hostile_name_neither_steers_the_terminal_nor_widens_the_others() -> None:
    lines = table(["group", "offset"], [["\x1b[2J\r\n", 1], ["g" * 32_000, 2], ["billing", 3]]).split("\n")
    assert len(lines) == 4 and all(line.isprintable() for line in lines)
    assert [len(line) for line in lines] == [WIDEST + 2 + 6, WIDEST + 2 + 6, LONGEST + 2 + 6, WIDEST + 2 + 6]
    assert lines[1].split() == ["?[2J??", "1"] and lines[3].split() == ["billing", "3"]
