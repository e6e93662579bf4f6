"""HTML as a tree of elements, so that no topic's name and no error's text can become markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: str | bool) -> Element:
    """An element. `class_` becomes class, `aria_label` aria-label; True is an attribute without a value.

    Attributes that are False and children that are None are left out.
    """
    element = Element(name)
    for key, value in attributes.items():
        if value is not False:
            element.set(key.rstrip("_").replace("_", "-"), "" if value is True else value)
    for child in children:
        if isinstance(child, str):
            if len(element):
                element[-1].tail = (element[-1].tail or "") + child
            else:
                element.text = (element.text or "") + child
        elif child is not None:
            element.append(child)
    return element


def table(heads: Sequence[str], rows: Iterable[Element], **attributes: str) -> Element:
    """A table with these column headings; `rows` are tr elements."""
    head = tag("tr", *(tag("th", text, scope="col") for text in heads))
    return tag("table", tag("thead", head), tag("tbody", *rows), **attributes)


def document(root: Element) -> bytes:
    """The whole page as bytes."""
    return b"<!doctype html>\n" + tostring(root, encoding="unicode", method="html").encode()
