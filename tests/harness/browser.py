"""A real browser without a screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.harness.programs import program

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # a container's root may not have one; only our own pages are opened
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@contextmanager
def browser(directory: Path, width: int = 1200, height: int = 1000) -> Iterator[Chrome]:
    """A window of this size; its profile is in `directory`. Errors of its console can be read with `errors`."""
    options = ChromeOptions()
    options.binary_location = program("chromium", "chromium")
    for argument in (*ARGUMENTS, f"--user-data-dir={directory}", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(program("chromedriver", "chromium-driver")))
    try:
        yield driver
    finally:
        driver.quit()


def errors(driver: Chrome) -> list[str]:
    """What the console has shown since the last call: broken scripts, and what the content policy has blocked."""
    lines = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [str(line["message"]) for line in lines if line["level"] in ("SEVERE", "WARNING")]


def emulate(driver: Chrome, *, dark: bool = False, width: int | None = None, javascript: bool = True) -> None:
    """Show the next page as a user with a dark desktop, a phone of this width, or without JavaScript sees it."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not javascript})
    if width is None:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    else:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
