"""All rows of the fault matrix: importing their modules enters them."""

from tests.chaos import clusters, processes, records
from tests.chaos.matrix import ROWS, Row

__all__ = ["ROWS", "Row", "clusters", "processes", "records"]
