"""A real Prometheus that scrapes a service and evaluates the alert rules."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from mirror.demo.brokers import free_port
from tests.harness.programs import program
from tests.harness.waiting import until

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "mirror.json"


# A scrape may take as long as the interval. Where two cores serve all tests, half a second was seen.
INTERVAL = "3s"
WINDOW = "15s"  # for rates: five intervals


class Prometheus:
    """Scrapes 127.0.0.1:`target` as job mirror each INTERVAL; a context manager."""

    def __init__(self, directory: Path, target: int) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._directory = directory
        scrape = {"job_name": "mirror", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
        settings = {
            "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [scrape],
        }
        self._settings = directory / "prometheus.yaml"
        self._settings.write_text(yaml.safe_dump(settings))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Prometheus:
        command = [
            program("prometheus", "prometheus"),
            f"--config.file={self._settings}",
            f"--storage.tsdb.path={self._directory / 'prometheus'}",
            f"--web.listen-address={urllib.parse.urlsplit(self.url).netloc}",
        ]
        log = self._directory / "prometheus.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "GOMAXPROCS": "1"})
        try:
            until(f"Prometheus has scraped, see {log}", self._scraped, 60)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)

    def _scraped(self) -> bool:
        try:
            return [value for _, value in self.query('up{job="mirror"}')] == [1.0]
        except OSError:
            return False

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series now. Raises urllib.error.HTTPError for a bad expression."""
        found = self._get("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def query_range(
        self, expression: str, begin: float, end: float, step: float
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Labels and (time, value) pairs of each series."""
        found = self._get("query_range", query=expression, start=begin, end=end, step=step)["result"]
        return [(series["metric"], [(float(at), float(value)) for at, value in series["values"]]) for series in found]

    def rules(self) -> list[dict[str, Any]]:
        """The alert rules as they were last evaluated."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, what: str, **parameters: Any) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]


def dashboard_panels() -> list[dict[str, Any]]:
    """The dashboard's panels that show data."""
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def without_variables(expression: str, window: str) -> str:
    """A panel's expression as Grafana sends it when everything is chosen."""
    for name in ("source", "target", "topic", "partition"):
        expression = expression.replace(f"${name}", ".*")
    return expression.replace("$__rate_interval", window)
