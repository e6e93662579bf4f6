"""HTML as a tree of elements, so that no topic's name and no error's text can become markup."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

from mirror.text import count

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


def folded(
    key: str, opened: Container[str], summary: Sequence[Child], heads: Sequence[str], rows: Sequence[Element], more: int
) -> Element:
    """A table under a summary, closed until somebody opens it. `more` rows are left out: /status has them."""
    return tag(
        "details",
        tag("summary", *summary),
        tag("div", table(heads, rows), class_="scroll"),
        tag("p", f"and {count(more)} more") if more > 0 else None,
        class_="groups",
        id=key,
        open=key in opened,
    )


def document(root: Element) -> bytes:
    """The whole page as bytes."""
    return b"<!doctype html>\n" + tostring(root, encoding="unicode", method="html").encode()
