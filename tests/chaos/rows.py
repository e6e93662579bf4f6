"""All rows of the fault matrix, in its order: importing their modules enters them."""

import re

from tests.chaos import clusters, headers, neighbours, processes, records, wire
from tests.chaos.matrix import ENTERED, Row


def _number(row: Row) -> int:
    found = re.match(r"\d+", row.name)
    return int(found[0]) if found else 99


ROWS = dict(sorted(ENTERED.items(), key=lambda item: _number(item[1])))
MODULES = (clusters, headers, neighbours, processes, records, wire)


def rows_for(batches: bool) -> dict[str, Row]:
    """The rows that a service can play which copies whole batches, or record by record."""
    return {name: row for name, row in ROWS.items() if batches or not row.wire}
