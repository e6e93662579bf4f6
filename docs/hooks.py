"""What mkdocs does for this site beyond its own: generated tables, pages from elsewhere, and links that hold in both.

The pages are read in the repository as well as on the site. So they link to files as they lie in the repository, and
here each link is looked up: a page of the site is linked, any other file of the repository is shown as text (the
repository has no address yet), and a link to a file that does not exist ends a strict build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.mirror")

ROOT = Path(__file__).parents[1]
# Pages of the repository that do not lie in docs/, and what they are called on the site.
ELSEWHERE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
# In the repository the README is the first page; the site begins with its own.
STANDS_FOR = {"README.md": "index.md", "docs": "index.md"}

LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation: `folder/` stands for all pages in it."""
    config.nav = _entries(config.nav or [], Path(config.docs_dir))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere in the repository."""
    for name, uri in ELSEWHERE.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the generated tables in, and look up the links."""
    whole = reference.MARKER.sub(lambda found: _table(found[1], page), markdown)
    return _outside_code(whole, lambda text: LINK.sub(lambda link: _linked(link, page.file.src_uri, files), text))


def _table(name: str, page: Page) -> str:
    if name in reference.TABLES:
        return reference.TABLES[name]()
    log.warning("docs/%s asks for the table %r, which does not exist", page.file.src_uri, name)
    return ""


def _entries(nav: list[Any], docs: Path) -> list[Any]:
    filled: list[Any] = []
    for entry in nav:
        ((title, value),) = entry.items()
        if isinstance(value, list):
            value = _entries(value, docs)
        elif value.endswith("/"):
            pages = sorted(docs.glob(f"{value}*.md"), key=lambda path: (path.name != "README.md", path.name))
            value = [path.relative_to(docs).as_posix() for path in pages]
        if value:
            filled.append({title: value})
    return filled


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    done, at = "", 0
    for code in FENCE.finditer(markdown):
        done += change(markdown[at : code.start()]) + code[0]
        at = code.end()
    return done + change(markdown[at:])


def _linked(link: re.Match[str], page: str, files: Files) -> str:
    target, hash_, anchor = link["target"].partition("#")
    if not target or ":" in target:
        return link[0]
    own = next((name for name, uri in ELSEWHERE.items() if uri == page), f"docs/{page}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
    uri = STANDS_FOR.get(path) or ELSEWHERE.get(path) or path.removeprefix("docs/")
    if not uri.endswith(".md") and files.get_file_from_path(f"{uri}/README.md"):
        uri = f"{uri}/README.md"
    if files.get_file_from_path(uri) and (path.startswith("docs/") or path in {**STANDS_FOR, **ELSEWHERE}):
        return (
            f"{link['image']}[{link['text']}]({posixpath.relpath(uri, posixpath.dirname(page) or '.')}{hash_}{anchor})"
        )
    if not (ROOT / path).exists():
        log.warning("%s links to %s, which does not exist", own, path)
    text = link["text"]
    return f"`{path}`" if text.strip("`") in (path, posixpath.basename(path)) else f"{text} (`{path}`)"
