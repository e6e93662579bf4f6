"""The status page in a real browser, of a real run: a running flow, a blocked partition and its reason, a recovery."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.harness import topics
from tests.harness.browser import browser, emulate, errors
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.one_path]

LARGE = 100_000  # bytes


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture(scope="module")
def service(local_service: Service) -> Service:
    """The shared one, once its tasks run."""
    local_service.wait_for(
        "tasks", lambda: local_service.metric("mirror_partitions", state="unassigned") == 0, 2 * PATIENCE
    )
    return local_service


def text(driver: Chrome) -> str:
    """What can be seen. In one step, for the page changes by itself."""
    return str(driver.execute_script("return document.body.innerText"))


def url(service: Service, path: str = "/") -> str:
    return f"http://127.0.0.1:{service.port}{path}"


def stopped_by_error(driver: Chrome) -> list[str]:
    script = "return [...document.querySelectorAll('.stopped-by-error li')].map(each => each.innerText)"
    return [str(each) for each in driver.execute_script(script)]


def copied_rate(driver: Chrome, key: str) -> float:
    """Records per second in a topic's line."""
    script = "return document.getElementById(arguments[0])?.querySelector('[data-label=records]')?.innerText ?? ''"
    shown = re.fullmatch(r"([\d,.]+)/s", str(driver.execute_script(script, key)))
    return float(shown[1].replace(",", "")) if shown else 0.0


def test_a_run_a_failure_and_its_recovery(shared: Pair, service: Service, chromium: Chrome) -> None:
    fine, bad = shared.topic("fine", 2), shared.topic("bad", 2, max_message_bytes=2 * LARGE)
    key = f"{shared.flow}/{bad}"
    shared.produce(bad, Made(None, b"small"), Made(None, b"small"))
    shared.await_same(bad)
    emulate(chromium)
    chromium.get(url(service))
    chromium.execute_script("window.neverReloaded = true")
    with Load(shared.source, {fine: 2}, rate=200):
        until("the page shows the flow running", lambda: "shared → backup running" in " ".join(text(chromium).split()))
        until("and its rate", lambda: copied_rate(chromium, f"{shared.flow}/{fine}") > 20)
        assert not stopped_by_error(chromium)

        # Its remote topic takes less than the source.
        topics.configure(shared.target, shared.remote(bad), max_message_bytes=LARGE // 2)
        shared.produce(bad, Made(None, b"L" * LARGE), Made(None, b"after it"))
        until("the page shows the blocked partition", lambda: stopped_by_error(chromium))
        reason = re.compile(rf"{bad}-0 at offset 2.*the target refuses the record at offset 2 .*too large", re.DOTALL)
        until("with its reason", lambda: any(map(reason.match, stopped_by_error(chromium))))
        assert len(stopped_by_error(chromium)) == 1
        assert chromium.title == "mirror: 1 partition blocked"
        first = chromium.execute_script("return document.querySelector('.topics details').id")
        assert first == key, "topics that fail come first"
        until("the other partitions go on", lambda: copied_rate(chromium, f"{shared.flow}/{fine}") > 20)
        status = json.loads(service.get("/status")[1])
        states = {t["topic"]: [p["state"] for p in t["partitions"]] for t in status["flows"][0]["topics"]}
        assert states[bad] == ["blocked", "running"] or states[bad] == ["blocked", "starting"]
        assert not {"blocked", "retrying"} & {*states[fine]}

        labels = {"topic": bad, "partition": 0}
        until("its lag", lambda: service.metric("mirror_source_topic_partition_lag", **labels) == 2)
        wait = "mirror_source_topic_partition_lag_seconds"
        once = service.metric(wait, **labels)
        until("its record waits longer and longer", lambda: service.metric(wait, **labels) > once + 1)
        assert service.metric("mirror_retries_total", **labels) > 0

        topics.configure(shared.target, shared.remote(bad), max_message_bytes=2 * LARGE)
        until("the page shows the recovery", lambda: not stopped_by_error(chromium))
    shared.await_same(bad)
    until(
        "no lag",
        lambda: service.metric(wait, **labels) == service.metric("mirror_source_topic_partition_lag", **labels) == 0,
    )
    until("what happened is remembered", lambda: f"{bad}-0 runs again" in text(chromium))
    assert chromium.execute_script("return window.neverReloaded"), "it updates by itself"
    assert errors(chromium) == []


def test_an_opened_topic_stays_open(shared: Pair, service: Service, chromium: Chrome) -> None:
    topic = shared.topic("opened", 3)
    shared.produce(topic, Made(None, b"x"))
    shared.await_same(topic)
    emulate(chromium)
    chromium.get(url(service))
    key = f"{shared.flow}/{topic}"
    until("the topic is there", lambda: chromium.find_elements(By.ID, key))
    summary = chromium.find_element(By.ID, key).find_element(By.TAG_NAME, "summary")
    summary.click()
    position = f"document.getElementById('{key}').querySelector('tbody tr td:nth-of-type(7)').innerText"
    until("its first partition's position", lambda: chromium.execute_script(f"return {position}") == "1")
    assert chromium.execute_script("return document.activeElement.tagName") == "SUMMARY"
    shared.produce(topic, Made(None, b"y"))
    until("the page follows", lambda: chromium.execute_script(f"return {position}") == "2")
    assert chromium.execute_script(f"return document.getElementById('{key}').open")
    assert chromium.execute_script("return document.activeElement.tagName") == "SUMMARY", "the focus stays too"
    assert errors(chromium) == []


def test_dark_and_small_and_without_javascript(shared: Pair, service: Service, chromium: Chrome) -> None:
    topic = shared.topic("seen", 2)
    shared.produce(topic, Made(None, b"x"))
    shared.await_same(topic)

    def brightness() -> float:
        colour = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    emulate(chromium)
    chromium.get(url(service))
    assert brightness() > 200
    emulate(chromium, dark=True)
    assert brightness() < 60
    emulate(chromium, width=360)
    chromium.get(url(service))
    wide = chromium.execute_script("return document.documentElement.scrollWidth")
    assert wide == 360, "nothing sticks out of a phone"
    emulate(chromium, javascript=False)
    key = f"{shared.flow}/{topic}"
    chromium.get(url(service, f"/?open={key}"))
    rows = chromium.find_elements(By.CSS_SELECTOR, f"[id='{key}'] tbody tr")
    assert len(rows) == 2 and all(row.is_displayed() for row in rows)
    emulate(chromium)


def test_it_says_when_it_is_old(pair: Pair, chromium: Chrome, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pair.service(tmp_path_factory.mktemp("old")) as service:
        emulate(chromium)
        chromium.get(url(service))
        until("the flow is shown", lambda: pair.alias in text(chromium))
        service.kill()
        until("a banner", lambda: "this page is out of date" in text(chromium))
    errors(chromium)  # of requests that nobody answered
