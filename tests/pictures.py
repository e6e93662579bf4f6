"""The README's pictures of the status page and the dashboard, of a real run: python -m tests.pictures

Two local clusters with the demo's load, the service between them, a Prometheus that scrapes it, and a browser that
looks. The dashboard is drawn without Grafana, from its queries and Prometheus' answers; see harness/panels.py.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from mirror.demo.brokers import LocalCluster, start_together
from mirror.demo.load import TOPICS, Writer, create_topics
from tests.harness import topics
from tests.harness.browser import browser, emulate
from tests.harness.configuration import one_flow
from tests.harness.load import Made, produce
from tests.harness.panels import dashboard
from tests.harness.prometheus import ROOT, Prometheus
from tests.harness.service import Service
from tests.harness.waiting import PATIENCE, until

DOCS = ROOT / "docs"
RECORDS = "mirror_source_records_total"
LARGE = 800_000  # bytes


def main() -> None:
    """Run it all and write the pictures into docs/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="how much the charts show")
    minutes = parser.parse_args().minutes
    with ExitStack() as ends:
        directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="mirror-pictures-")))
        primary, backup = LocalCluster("primary", directory), LocalCluster("backup", directory)
        for cluster in (primary, backup):
            ends.callback(cluster.kill)
        start_together(primary, backup)
        create_topics(primary.bootstrap)
        writer = Writer(primary.bootstrap)
        writer.start()
        ends.callback(writer.stop)
        settings = one_flow(primary.bootstrap, backup.bootstrap, list(TOPICS), alias="primary")
        service = ends.enter_context(Service(settings, directory))
        service.wait_for("records", lambda: service.metric(RECORDS) > 0, 2 * PATIENCE)
        prometheus = ends.enter_context(Prometheus(directory, service.port))
        window = ends.enter_context(browser(directory / "chromium"))
        begun = time.monotonic()

        def passed(share: float) -> None:
            until(f"{share:.0%} of the time", lambda: time.monotonic() > begun + share * 60 * minutes, 3600)

        passed(1 / 3)
        writer.burst()
        passed(2 / 3)
        # One partition is blocked: its remote topic takes less than the source.
        topics.configure(backup.bootstrap, "primary.payments", max_message_bytes=LARGE // 2)
        produce(primary.bootstrap, "payments", [Made(b"large", b"L" * LARGE, [("sequence", b"0")])])
        until("a blocked partition", lambda: service.metric("mirror_partitions", state="blocked") == 1)
        passed(1)
        status_page(window, service, DOCS / "status-page.png")
        drawn, width, height = dashboard(prometheus, minutes)
        html = directory / "dashboard.html"
        html.write_bytes(drawn)
        emulate(window)
        window.get(html.as_uri())
        save(window, width, height, DOCS / "dashboard.png")


def status_page(window: Chrome, service: Service, to: Path) -> None:
    """Take a picture of the status page, on which the topic with a blocked partition is opened."""
    emulate(window)
    window.get(f"http://127.0.0.1:{service.port}/?open=primary-%3Ebackup/payments")
    until("the failure is shown", lambda: window.find_elements(By.CSS_SELECTOR, ".blocked li"))
    height = int(window.execute_script("return document.documentElement.scrollHeight"))
    save(window, 1100, height, to)


def save(window: Chrome, width: int, height: int, to: Path) -> None:
    """A picture of so many pixels."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert window.save_screenshot(str(to))
    print(f"{to.relative_to(ROOT)}: {width} x {height}, {to.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
