"""The documentation's site in a real browser: what it fetches, its search, and that nothing is wider than a phone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.harness.browser import browser, emulate, errors
from tests.harness.waiting import until
from tests.unit.test_docs_site import ROOT, build

pytestmark = pytest.mark.slow

PAGES = (
    "index",
    "start",
    "operations",
    "configuration",
    "metrics",
    "design",
    "reliability",
    "performance",
    "comparison",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    done = build(ROOT, site)
    assert done.returncode == 0, done.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(Path(tmp_path_factory.mktemp("chromium"))) as driver:
        yield driver


@pytest.mark.parametrize(
    ("width", "pages"),
    [(None, ("index", "metrics", "performance")), (400, (*PAGES, "runbooks/index", "runbooks/MirrorDown"))],
    ids=["wide", "phone"],
)
def test_pages_fetch_nothing_from_elsewhere_and_fit(
    url: str, chromium: Chrome, width: int | None, pages: tuple[str, ...]
) -> None:
    emulate(chromium, width=width)
    for name in pages:
        chromium.get(f"{url}/{name}.html")
        fetched = chromium.execute_script("return performance.getEntriesByType('resource').map(each => each.name)")
        assert len(fetched) > 3, name
        assert [each for each in fetched if not each.startswith(f"{url}/")] == [], name
        wide, window = chromium.execute_script("return [document.body.scrollWidth, window.innerWidth]")
        assert wide <= window, (name, wide, window)
        assert errors(chromium) == [], name


def test_the_search_finds_a_key(url: str, chromium: Chrome) -> None:
    emulate(chromium)
    chromium.get(f"{url}/index.html")
    chromium.find_element(By.TAG_NAME, "body").send_keys("/")
    field = chromium.find_element(By.CSS_SELECTOR, "input.md-search__input")
    until("the search field", field.is_displayed)
    field.send_keys("offset_lag_max", Keys.SHIFT)
    until("the key among the results", lambda: "configuration.html" in " ".join(_results(chromium)))


def _results(chromium: Chrome) -> list[str]:
    found = chromium.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
    return [each.get_attribute("href") or "" for each in found]


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""
