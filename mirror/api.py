"""What programs may import: notebooks and schedulers that translate offsets. These names stay.

from mirror import api

flow = api.load(Path("mirror.yaml")).flows[0]
api.translate(flow, api.of_group(flow, "billing"))
"""

from __future__ import annotations

from mirror.commands.translate import of_group, translate
from mirror.config.load import load
from mirror.errors import MirrorError
from mirror.groups.translated import Translation
from mirror.model import Partition

__all__ = ["MirrorError", "Partition", "Translation", "load", "of_group", "translate"]
