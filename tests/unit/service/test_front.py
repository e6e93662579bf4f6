"""What a service shows of itself."""

from __future__ import annotations

import re
import ssl
import urllib.request
from dataclasses import replace
from pathlib import Path

import yaml

from mirror.config.load import load
from mirror.kafka.certificates import expiry
from mirror.service.front import Front
from mirror.status.configuration import ConfigurationStatus
from tests.harness.certificates import self_signed


def test_the_certificate_that_the_server_shows_is_among_its_metrics(tmp_path: Path) -> None:
    made, file = self_signed(tmp_path, "http"), tmp_path / "mirror.yaml"
    clusters = {alias: {"bootstrap.servers": f"127.0.0.1:{port}"} for alias, port in (("a", 1), ("b", 2))}
    http = {"host": "127.0.0.1", "port": 0, "tls_certificate": str(made.certificate), "tls_key": str(made.key)}
    flows = [{"source": "a", "target": "b", "topics": ["t"]}]
    file.write_text(yaml.safe_dump({"clusters": clusters, "flows": flows, "http": http}))
    settings = replace(load(file), flows=())  # it watches no cluster
    before = expiry(str(made.certificate))
    with Front(settings, [], ConfigurationStatus(), list, list) as front:
        assert front._web is not None
        context = ssl.create_default_context(cafile=made.certificate)
        made.certificate.write_bytes(self_signed(tmp_path, "renewed", days=90).certificate.read_bytes())  # not the key
        url = f"https://127.0.0.1:{front._web.port}/metrics"
        with urllib.request.urlopen(url, context=context, timeout=20) as answer:
            text = answer.read().decode()
    found = re.findall(r'^mirror_certificate_expiry_timestamp_seconds{cluster="",kind="http"} (.*)', text, re.MULTILINE)
    assert [float(each) for each in found] == [before], "that of the file is in force later"
