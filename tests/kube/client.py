"""A client of Kubernetes' API that says what the server answered: the code, the object, and the warnings."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"  # JSON is YAML, too
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered. `warnings` are those that kubectl would show."""

    code: int
    body: Object
    warnings: tuple[str, ...]

    def good(self) -> Object:
        """The object. Raises AssertionError if the server refused, or warned."""
        assert self.code in (200, 201), f"{self.code}: {self.body.get('message')}"
        assert self.warnings == (), self.warnings
        return self.body


class Client:
    """Asks one API server, as whom the token says."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        self._url = url
        self._context = ssl.create_default_context(cafile=authority)
        self._token = token
        self._resources: dict[str, dict[str, Object]] = {}

    def ask(self, method: str, path: str, body: Object | None = None, content: str = "application/json") -> Answer:
        """One request, whatever its answer is."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._context) as answer:
                return _answer(answer.status, answer.read(), answer.headers.get_all("Warning"))
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read(), error.headers.get_all("Warning"))

    def log(self, namespace: str, pod: str) -> str:
        """What the only container of a pod wrote."""
        request = urllib.request.Request(f"{self._url}/api/v1/namespaces/{namespace}/pods/{pod}/log")
        request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=60, context=self._context) as answer:
            return str(answer.read().decode(errors="replace"))

    def create(self, thing: Object, namespace: str = "") -> Answer:
        """Create an object. The server refuses keys that it does not know."""
        return self.ask("POST", f"{self.folder(thing, namespace)}?fieldValidation=Strict", thing)

    def apply(self, thing: Object) -> Answer:
        """Apply an object on the server's side, as the only one who manages it."""
        return self.ask("PATCH", f"{self.path(thing)}?fieldManager=tests&fieldValidation=Strict", thing, APPLY)

    def get(self, thing: Object) -> Answer:
        """The object as the server has it."""
        return self.ask("GET", self.path(thing))

    def delete(self, thing: Object) -> Answer:
        """Delete an object at once, and first what belongs to it."""
        return self.ask("DELETE", f"{self.path(thing)}?gracePeriodSeconds=0&propagationPolicy=Background")

    def path(self, thing: Object) -> str:
        """Where an object is, or would be."""
        return f"{self.folder(thing)}/{thing['metadata']['name']}"

    def folder(self, thing: Object, namespace: str = "") -> str:
        """Where objects of this kind are, in the namespace of this one."""
        version = thing["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if thing["kind"] not in self._resources.get(root, {}):
            found = self.ask("GET", root).good()["resources"]
            self._resources[root] = {each["kind"]: each for each in found if "/" not in each["name"]}
        resource = self._resources[root][thing["kind"]]
        within = thing["metadata"].get("namespace", namespace) if resource["namespaced"] else ""
        return f"{root}/namespaces/{within}/{resource['name']}" if within else f"{root}/{resource['name']}"


def _answer(code: int, body: bytes, warnings: list[str] | None) -> Answer:
    # RFC 7234: a code, an agent, and what is said, in quotes.
    said = (re.fullmatch(r'\d+ \S+ "(.*)"', each) for each in warnings or ())
    try:
        told = json.loads(body)
    except json.JSONDecodeError:
        told = {"message": body.decode(errors="replace")}
    return Answer(code, told, tuple(found[1] if found else "?" for found in said))
