"""The documentation as a site: built strictly, complete against the code, and a browser fetches nothing else for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import reference
import yaml
from prometheus_client import generate_latest
from pydantic import BaseModel
from reference import CLUSTER, EFFECTS, FLOW, GROUP, PARTITION, Metrics

from mirror.config import flow_model, model, value_types

ROOT = Path(__file__).parents[2]
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "embed": "src",
    "video": "src",
    "audio": "src",
}
LINKED = {"canonical", "next", "prev", "alternate", "license", "author"}  # what a <link> names, but no browser fetches
FOREIGN = re.compile(r"\s*(https?:)?//")
STYLE_FETCH = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])\s*((?:https?:)?//[^"')]+)""")

EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    model.RootModel: {
        "clusters": {"a": {"bootstrap.servers": "a:1"}, "b": {"bootstrap.servers": "b:1"}},
        "flows": [{"source": "a", "target": "b"}],
    },
    model.ClusterModel: {"bootstrap.servers": "a:1"},
    flow_model.FlowModel: {"source": "a", "target": "b"},
}


class Parsed(HTMLParser):
    """A page's elements with their attributes, and its text by the heading above it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, str] = {}
        self._at = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in ("h1", "h2", "h3"):
            self._at = attributes.get("id") or ""
            self.sections[self._at] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._at = ""

    def handle_data(self, data: str) -> None:
        if self._at:
            self.sections[self._at] += data


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """A strict build of the site of `root`."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(root / "mkdocs.yml")]
    return subprocess.run(
        [*command, "--site-dir", str(site)], capture_output=True, text=True, check=False, env=environment, cwd=root
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    done = build(ROOT, made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository with pages that can be changed: what they only link to is linked."""
    for found in ROOT.iterdir():
        if found.name == "docs":
            shutil.copytree(found, tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
        elif found.is_file():
            shutil.copy(found, tmp_path / found.name)
        elif not found.name.startswith(".") and found.name != "build":
            (tmp_path / found.name).symlink_to(found)
    return tmp_path


def page(site: Path, name: str) -> Parsed:
    return Parsed((site / name).read_text())


def keys() -> Iterator[tuple[type[BaseModel], str, str, Any]]:
    """Each key of the model with where it stands in the reference."""
    for section, kind in reference.SECTIONS.items():
        for name, field in kind.model_fields.items():
            key = field.alias or name
            yield kind, key, anchor_of(section, key), field


def anchor_of(section: str, key: str) -> str:
    place = section.replace("[]", "").replace(".<alias>", "").replace(".<topic>", "")
    return ".".join(filter(None, (place, key)))


def test_every_model_of_the_file_is_in_the_reference() -> None:
    defined = {**vars(model), **vars(flow_model)}
    named = {each for each in defined.values() if isinstance(each, type) and issubclass(each, BaseModel)}
    parts = {flow_model.EndsModel, flow_model.FlowDefaultsModel}  # their keys are those of flows[]
    assert named - {BaseModel, value_types.Section, *parts} == set(reference.SECTIONS.values())


def test_every_key_is_in_the_reference_with_what_it_does_its_limits_and_its_default(site: Path) -> None:
    sections = page(site, "configuration.html").sections
    found = list(keys())
    assert len(found) > 40
    for kind, key, anchor, field in found:
        text = " ".join(sections[anchor].split())
        assert " ".join(field.description.split()).replace("`", "") in text, anchor
        allowed = (field.json_schema_extra or {}).get(value_types.ALLOWED)
        assert allowed is None or f"Must be {allowed}." in text, anchor
        if field.is_required():
            assert "Required." in text, anchor
        else:
            written = re.search(r"Default: (.*?)(?: May hold.*)?$", text)
            assert written, anchor
            value = yaml.safe_load(written[1])
            given = {**EXAMPLES.get(kind, {}), key: value}
            parsed = kind.model_validate(given, context={"aliases": ["a", "b"]})
            assert getattr(parsed, key) == field.default, (anchor, written[1])


def test_the_reference_says_for_each_key_when_a_change_takes_effect(site: Path) -> None:
    sections = page(site, "configuration.html").sections
    for section, effects in EFFECTS.items():
        for key, effect in effects.items():
            text = " ".join(sections[anchor_of(section, key)].split())
            assert f"A change takes effect {effect}." in text, (section, key)


def test_the_permissions_are_those_of_the_declaration(site: Path) -> None:
    text = page(site, "operations.html").sections["permissions"]
    for part in (
        "primary.*",
        "mirror-backup-primary",
        "transactional-id",
        "sync_acls: to read the ACLs",
        "AlterConfigs",
    ):
        assert part in text, part


def test_secrets_are_marked(site: Path) -> None:
    """And nothing else is: a token provider and a TLS key are paths, which `mirror config` shows."""
    sections = page(site, "configuration.html").sections
    marked = {anchor for _, _, anchor, _ in keys() if "May hold secrets." in sections[anchor]}
    otlp = {"metrics.otlp.endpoint", "metrics.otlp.headers"}
    assert marked == {"clusters.consumer", "clusters.producer", "spark.conf", "http.password", *otlp}
    assert "password" in sections["secrets"]


def test_every_metric_is_in_the_reference_with_its_type_and_help(site: Path) -> None:
    sections = page(site, "metrics.html").sections
    text = generate_latest(Metrics([]).registry).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    assert len(kinds) > 25
    for name, kind in kinds.items():
        shown = " ".join(sections[name].split())
        assert ("Info" if name == "mirror_build_info" else kind.capitalize()) in shown, name
        assert helps[name] in shown, name


def test_every_setting_of_mirrormaker_is_on_its_page_with_what_becomes_of_it(site: Path) -> None:
    text = " ".join("".join(page(site, "from-mirrormaker.html").sections.values()).split())
    rows = [row for rows in reference.table.PARTS.values() for row in rows]
    assert len(rows) > 200
    for row in rows:
        assert row.name in text and " ".join(row.why.split()) in text, row.name


def test_committed_tables_are_those_of_the_code() -> None:
    pages = list((ROOT / "docs").rglob("*.md"))
    tables = sum(each.read_text().count("<!-- end -->") for each in pages)
    assert tables == len(reference.TABLES)
    stale = [each.name for each in pages if reference.committed(each.read_text()) != each.read_text()]
    assert not stale, "run `make docs`"


def test_metrics_that_are_compared_with_those_of_mirrormaker_exist() -> None:
    named = re.findall(r"mirror_\w+", (ROOT / "docs" / "from-mirrormaker.md").read_text().partition("## Metrics")[2])
    known = {name for family in Metrics([]).registry.collect() for name in (family.name, *reference.exposed(family))}
    assert len(named) > 10
    assert [name for name in named if name not in known] == []


def test_every_value_of_a_label_has_a_meaning() -> None:
    values = {metric: set(values) for (metric, _), values in reference.LABEL_VALUES.items()}
    plain = {"mirror_flow_topics", "mirror_flow_partitions"}  # source or target
    assert reference.MEANINGS.keys() == values.keys() - plain
    assert {metric: set(meanings) for metric, meanings in reference.MEANINGS.items()} == {
        metric: found for metric, found in values.items() if metric not in plain
    }


def test_labels_of_metrics_are_explained() -> None:
    labels = {
        (family.name, label)
        for family in Metrics([]).registry.collect()
        for label in getattr(family, "_labelnames", ())
        if label not in PARTITION + GROUP + CLUSTER
    }
    assert labels == reference.LABEL_VALUES.keys()
    assert set(FLOW) < set(PARTITION)


def test_a_browser_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    fetched = [fetch for each in pages for fetch in _fetches(page(site, str(each.relative_to(site))))]
    styles = [*site.rglob("*.css"), *pages]
    fetched += [url for each in styles for url in STYLE_FETCH.findall(each.read_text())]
    fetched += [url for each in site.rglob("*.svg") for url in re.findall(r'href="(https?:[^"]+)', each.read_text())]
    assert fetched == []


def test_the_theme_is_not_asked_for_what_it_would_fetch(site: Path) -> None:
    """Its script fetches these from elsewhere, but only for a page that has them."""
    for each in site.rglob("*.html"):
        html = each.read_text()
        assert not re.search(r'class="[^"]*\b(mermaid|glightbox|arithmatex)\b', html), each
        assert "data-md-component=source" not in html.replace('"', ""), each


def _fetches(parsed: Parsed) -> Iterator[str]:
    for tag, attributes in parsed.tags:
        target = attributes.get(LOADED.get(tag, "")) or ""
        relations = set((attributes.get("rel") or "").split())
        if tag == "link" and not relations <= LINKED:
            target = attributes.get("href") or ""
        for each in (target, *(attributes.get("srcset") or "").split(",")):
            if FOREIGN.match(unescape(each)):
                yield f"<{tag}> {each}"


def test_pictures_are_on_the_site(site: Path) -> None:
    for name in ("performance.html", "reliability.html", "start.html", "metrics.html"):
        pictures = [attributes["src"] or "" for tag, attributes in page(site, name).tags if tag == "img"]
        assert pictures, name
        assert [each for each in pictures if not (site / each).is_file()] == [], name


def test_no_code_of_the_site_is_on_it(site: Path) -> None:
    assert list(site.rglob("*.py")) == []


def test_each_mistake_ends_a_strict_build(copy: Path) -> None:
    """All at once, for each is a warning of its own."""
    start = copy / "docs" / "start.md"
    start.write_text(
        start.read_text() + "\n[a](gone.md) [b](../tests/gone.py) [c](design.md#gone) ![d](gone.svg)\n"
        "\n<!-- generated: nothing -->\n"
    )
    (copy / "docs" / "orphan.md").write_text("# Nobody links here\n")
    (copy / "docs" / "metrics.md").unlink()
    done = build(copy, copy / "site")
    assert done.returncode == 1, done.stderr
    for said in (
        "docs/start.md links to docs/gone.md, which does not exist",
        "docs/start.md links to tests/gone.py, which does not exist",
        "does not contain an anchor '#gone'",
        "docs/start.md links to docs/gone.svg, which does not exist",
        "asks for the table 'nothing', which does not exist",
        "orphan.md",
        "'metrics.md'",
    ):
        assert said in done.stderr, said


def test_papers_that_are_added_are_on_the_site(copy: Path) -> None:
    texts = {
        "CONTRIBUTING.md": "# Contributing\n\nSee [the design](docs/design.md), [one](docs/decisions/0001-a.md), "
        "[the example](config.example.yaml) and `[no](link.md)`.\n",
        "CHANGELOG.md": "# Changelog\n",
        "SECURITY.md": "# Security\n\nSee [README](README.md).\n",
        "docs/glossary.md": "# Glossary\n\nSee [contributing](../CONTRIBUTING.md#contributing).\n",
        "docs/decisions/0001-a.md": "# A decision\n\nSee [the glossary](../glossary.md) and [runbooks](../runbooks).\n",
    }
    (copy / "docs" / "decisions").mkdir(exist_ok=True)
    for name, text in texts.items():
        with (copy / name).open("a") as file:  # after what may be there already
            file.write(f"\n\n{text}")
    done = build(copy, copy / "site")
    assert done.returncode == 0, done.stderr
    index = page(copy / "site", "index.html")
    links = {attributes.get("href") for tag, attributes in index.tags if tag == "a"}
    assert {"contributing.html", "changelog.html", "security.html", "glossary.html", "decisions/0001-a.html"} <= links
    contributing = (copy / "site" / "contributing.html").read_text()
    assert 'href="design.html"' in contributing and 'href="decisions/0001-a.html"' in contributing
    assert "<code>config.example.yaml</code>" in contributing and "<code>[no](link.md)</code>" in contributing
    glossary = (copy / "site" / "glossary.html").read_text()
    assert 'href="contributing.html#contributing"' in glossary


def test_links_of_the_readme_hold_in_the_repository() -> None:
    links = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", (ROOT / "README.md").read_text())
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_figures_of_the_comparison_are_those_that_were_measured() -> None:
    compared = (ROOT / "docs" / "comparison.md").read_text()
    measured = (ROOT / "docs" / "performance.md").read_text()
    table = compared.partition("Measured on one machine")[2].partition("\n## ")[0]
    figures = [
        figure
        for row in re.findall(r"^\|.*\|$", table, re.MULTILINE)[2:]
        for figure in re.findall(r"[\d,.]+\d", row.split("|", 2)[2])
    ]
    assert len(figures) > 15
    known = set(re.findall(r"[\d,.]+\d", measured))
    assert [figure for figure in figures if figure not in known] == []
