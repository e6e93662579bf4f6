"""What the status page says of the service's own configuration: nothing, as long as all of it is in force."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from mirror.status.configuration import ConfigurationView
from mirror.text import listed
from mirror.web.page.markup import tag

LISTED_MAX = 50  # keys on the page


def configuration(view: ConfigurationView) -> Iterator[Element]:
    """Why changes are not in force, if there are any."""
    if view.problem:
        said = "The configuration was changed and can't be used. The old settings stay in force"
        yield tag("p", f"{said}: {view.problem}", class_="problem")
    if view.waiting:
        keys = listed(view.waiting, LISTED_MAX)
        yield tag("p", f"These keys were changed and take effect at the next start: {keys}", class_="problem")
