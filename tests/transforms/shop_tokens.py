"""A token provider as a user has it: in a module of its own, outside of the package."""

from __future__ import annotations

import json
import time
import urllib.request


def token(config: str) -> tuple[str, float]:
    """Fetch a token from the server whose URL the configuration has."""
    form = urllib.request.Request(config, b"grant_type=client_credentials", {"Authorization": "Basic cHJvdmlkZXI6eA=="})
    with urllib.request.urlopen(form, timeout=10) as answer:
        found = json.load(answer)
    return found["access_token"], time.time() + found["expires_in"]


def leaking(config: str) -> tuple[str, float]:
    """Fails, and says what nobody may hear."""
    raise RuntimeError("the-secret-of-the-provider")
