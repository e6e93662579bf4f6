"""Tokens for Amazon MSK: made with credentials that are worth nothing, where AWS' library is installed."""

from __future__ import annotations

import base64
import sys
import time
import types
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mirror import token_provider
from mirror.errors import Unavailable
from mirror.user_code import Imports, of_callable

SIGNER = "aws_msk_iam_sasl_signer"


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """What a stand-in of AWS' library was asked for: which of its functions gets what."""
    asked: list[tuple[str, ...]] = []

    def answering(name: str) -> Any:
        def answer(*arguments: str) -> tuple[str, int]:
            asked.append((name, *arguments))
            return "token", int((time.time() + 900) * 1000)

        return staticmethod(answer)

    names = ("generate_auth_token", "generate_auth_token_from_profile", "generate_auth_token_from_role_arn")
    module = types.ModuleType(SIGNER)
    module.MSKAuthTokenProvider = type("MSKAuthTokenProvider", (), {name: answering(name) for name in names})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, SIGNER, module)
    monkeypatch.delitem(sys.modules, "mirror.msk_iam", raising=False)
    monkeypatch.setattr(token_provider, "find_spec", lambda _: True)
    monkeypatch.setattr(
        token_provider, "_imports", Imports("token provider", of_callable(token_provider.TokenProvider))
    )
    yield asked
    sys.modules.pop("mirror.msk_iam", None)  # it has the stand-in


def test_the_configuration_says_which_credentials(signed: list[tuple[str, ...]]) -> None:
    provider = token_provider.load(token_provider.MSK_IAM)
    assert 890 < provider("region=eu-west-1").expires_at - time.time() < 901, "AWS counts in milliseconds"
    provider("region=eu-west-1 profile=mine")
    provider("region=eu-west-1  role=arn:aws:iam::1:role/mirror")
    assert signed == [
        ("generate_auth_token", "eu-west-1"),
        ("generate_auth_token_from_profile", "eu-west-1", "mine"),
        ("generate_auth_token_from_role_arn", "eu-west-1", "arn:aws:iam::1:role/mirror", "mirror"),
    ]


@pytest.mark.parametrize("config", ["", "eu-west-1", "region=", "region=a b=c", "region=a profile=b role=c"])
def test_anything_else_is_refused(config: str, signed: list[tuple[str, ...]]) -> None:
    with pytest.raises(Unavailable, match="region=REGION, and after that"):
        token_provider.load(token_provider.MSK_IAM)(config)
    assert not signed


def test_the_library_itself_signs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(SIGNER, reason="cannot run here: the extra msk-iam is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "worth-nothing")
    found = token_provider.load(token_provider.MSK_IAM)("region=eu-west-1")
    url = urlsplit(base64.urlsafe_b64decode(found.value + "=" * (-len(found.value) % 4)).decode())
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    query = parse_qs(url.query)
    assert query["Action"] == ["kafka-cluster:Connect"] and query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert "worth-nothing" not in url.query and 0 < found.expires_at - time.time() <= 900
