"""Turns secrets and the references of Connect's config providers into references of mirror's. Pure.

No secret leaves this module: what it returns names a variable or a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirror.commands.convert.entries import InputEntry
from mirror.config.located_yaml import SECRET

# Connect's ConfigTransformer: ${provider:key} or ${provider:path:key}.
REFERENCE = re.compile(r"\$\{(?P<provider>[\w.-]{1,100}):(?P<where>[^}]{0,1000})\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Names that look like a secret's to `SECRET`, but are none.
NO_SECRETS = frozenset(
    {
        "ssl.key.location",
        "ssl.keystore.location",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)


class Variable(NamedTuple):
    """An environment variable that has to be set before mirror starts."""

    name: str
    meaning: str  # where its value is: a key of the input, or of a Kubernetes secret


class Text(NamedTuple):
    """A value for our file. `raw` text holds references, which must stay what they are."""

    text: str
    raw: bool
    why: str = ""


class Variables:
    """The references of one configuration. `providers` are its config providers, by name; None if it can't tell."""

    def __init__(self, providers: Sequence[tuple[str, str]] | None) -> None:
        self._kinds: Mapping[str, str] | None = None if providers is None else {n: _kind(n, c) for n, c in providers}
        self._names: dict[tuple[str, str], str] = {}
        self.needed: list[Variable] = []

    def carried(self, prefix: str, name: str, value: str, entry: InputEntry, part: str = "") -> Text:
        """The value of our property `name`, without any secret in it.

        `prefix` begins the names of variables. `part` says which part of the entry's value it is, for people.
        """
        secret = is_secret(name)
        found = [match for match in REFERENCE.finditer(value) if self._is_provider(match)]
        if not found and not secret:
            return Text(value, raw=False)
        translated = [self._translated(match) for match in found]
        plain = REFERENCE.sub("", value) if found else value
        if found and None not in translated and not (secret and plain):
            parts = iter(translated)
            known = {match[0] for match in found}
            text = REFERENCE.sub(lambda match: str(next(parts)) if match[0] in known else match[0], value)
            return Text(text, raw=True)
        return self.variable(prefix, name, entry.key, f"{part}{entry.key}")

    def variable(self, prefix: str, name: str, key: str, meaning: str) -> Text:
        """A new environment variable for our property `name`; the same one if asked again for the same key."""
        if (key, name) not in self._names:
            new = self._free(re.sub(r"[^A-Z0-9]+", "_", f"{prefix}_{name}".upper()).strip("_"))
            self._names[key, name] = new
            self.needed.append(Variable(new, meaning))
        known = self._names[key, name]
        return Text(f"${{env:{known}}}", raw=True, why=f"set the environment variable {known} to its value")

    def _free(self, wanted: str) -> str:
        wanted = wanted if _VARIABLE.fullmatch(wanted) else f"KAFKA_{wanted}"
        taken = {each.name for each in self.needed}
        number, name = 2, wanted
        while name in taken:
            number, name = number + 1, f"{wanted}_{number}"
        return name

    def _is_provider(self, match: re.Match[str]) -> bool:
        return self._kinds is None or match["provider"] in self._kinds

    def _translated(self, match: re.Match[str]) -> str | None:
        """The reference in our form; None if we have none."""
        provider, (path, colon, key) = match["provider"], match["where"].partition(":")
        path, key = (path, key) if colon else ("", path)
        kind = _kind(provider, "") if self._kinds is None else self._kinds[provider]
        if kind == "env" and not path and _VARIABLE.fullmatch(key):
            return f"${{env:{key}}}"
        if kind == "directory" and path.startswith("/") and re.fullmatch(r"[\w.-]+", key):
            return f"${{file:{path.rstrip('/')}/{key}}}"
        return None


def is_secret(name: str) -> bool:
    """True if our property `name` holds a secret."""
    return name not in NO_SECRETS and SECRET.search(name) is not None


def _kind(name: str, class_: str) -> str:
    known = {"EnvVarConfigProvider": "env", "DirectoryConfigProvider": "directory", "FileConfigProvider": "file"}
    return known.get(
        class_.strip().rpartition(".")[2], "" if class_ else {"env": "env", "dir": "directory"}.get(name, name)
    )
