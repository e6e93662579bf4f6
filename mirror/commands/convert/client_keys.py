"""What becomes of the properties of Java's clients: librdkafka's properties of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from mirror.commands.convert import client_settings, jaas, logins
from mirror.commands.convert.entries import ClusterScope, Item
from mirror.commands.convert.setting import CARRIED, Fate, Setting, look_up
from mirror.commands.convert.table import CLIENTS
from mirror.commands.convert.variables import Variables
from mirror.commands.convert.verdict import Put, Verdict, not_possible, of_table
from mirror.config.librdkafka import client_problems

Items = Mapping[str, Item]

# Handlers that get a token from an OIDC server with a client's id and secret, as librdkafka's oidc method does.
OIDC = ("OAuthBearerLoginCallbackHandler", "JaasClientOauthLoginCallbackHandler")


class Section:
    """The properties of one kind of client of a cluster, or of all of them."""

    def __init__(self, scope: ClusterScope, own: Items, common: Items, variables: Variables) -> None:
        """`own` are the section's items by name; `common` those of the whole cluster."""
        self._scope = scope
        self._own = own
        self._common = common
        self._variables = variables

    def judge(self, item: Item) -> Verdict:
        """What becomes of one of the section's own items."""
        if item.kind != "java":
            return self._of_librdkafka(item)
        setting = look_up(CLIENTS, item.name)
        if setting is None:
            return not_possible("unknown property of Kafka's clients; if librdkafka has it, write it yourself")
        if self._scope.role == "admin":
            return self._admin(item, setting)
        handler = HANDLERS.get(setting.name)
        if handler:
            return handler(self, item, setting)
        if setting.fate in CARRIED and setting.ours:
            return self.put(item, setting.ours, item.entry.value.strip(), setting.fate, setting.why)
        return of_table(setting)

    def _of_librdkafka(self, item: Item) -> Verdict:
        if item.kind == "ours":
            return self.put(item, item.name, item.entry.value, "renamed")
        text = self._variables.variable(self._prefix(item), item.name, item.entry.key, item.entry.value)
        return Verdict("renamed", text.why, (Put(self._place(item.name), text.text, raw=True),))

    def put(self, item: Item, name: str, value: str, fate: Fate, why: str = "", part: str = "") -> Verdict:
        """The value as librdkafka's property `name` of this section, if librdkafka takes it."""
        text = self._variables.carried(self._prefix(item), name, value, item.entry, part)
        problem = None if text.raw else refusal(self._scope.role, name, text.text)
        if problem:
            return not_possible(f"{name}: {problem}")
        said = "; ".join(filter(None, (text.why, why)))
        return Verdict(fate, said, (Put(self._place(name), text.text, text.raw),))

    def _place(self, name: str) -> tuple[str, ...]:
        return ("clusters", self._scope.alias, *filter(None, (self._scope.role,)), name)

    def _prefix(self, item: Item) -> str:
        """What the names of variables begin with: what holds for all clusters needs a variable once."""
        return "_".join(filter(None, (self._scope.alias if item.rank else "KAFKA", self._scope.role)))

    def value(self, name: str) -> str:
        """The value of a property of this section, else of the cluster; empty if there is none."""
        item = self._own.get(name) or self._common.get(name)
        return item.entry.value.strip() if item else ""

    def _admin(self, item: Item, setting: Setting) -> Verdict:
        common = self._common.get(item.name)
        if setting.fate not in CARRIED:
            return of_table(setting)
        if common and common.entry.value.strip() == item.entry.value.strip():
            return Verdict("not needed", "it is what the cluster's clients have anyway")
        return not_possible("mirror's admin clients have the properties of all clients of their cluster, and no others")


@cache
def refusal(role: str, name: str, value: str) -> str | None:
    """Why librdkafka does not take a property; None if it does. Connects to nothing."""
    at = ("clusters", "a")
    cluster = {role: {name: value}} if role else {name: value}
    # A broken location in the cluster leaves out the check of properties together.
    found = client_problems(at, cluster, frozenset(), {(*at, "")})
    return found[0].text if found else None


def _mechanism(section: Section, item: Item, setting: Setting) -> Verdict:
    value = item.entry.value.strip().upper()
    if value == "AWS_MSK_IAM":
        return not_possible("librdkafka has no AWS_MSK_IAM: use SCRAM, TLS or OAUTHBEARER")
    return section.put(item, setting.ours, value, setting.fate)


def _upper(section: Section, item: Item, setting: Setting) -> Verdict:
    return section.put(item, setting.ours, item.entry.value.strip().upper(), setting.fate)


def _jaas(section: Section, item: Item, setting: Setting) -> Verdict:
    value = item.entry.value
    if re.fullmatch(r"\s*\$\{[^}]*\}\s*", value):
        return not_possible("the whole text comes from a reference: write sasl.username and sasl.password yourself")
    try:
        found = list(logins.properties(jaas.parse(value)))
    except jaas.BadJaas as error:
        return not_possible(f"{error}; write librdkafka's sasl properties yourself")
    verdicts = [
        section.put(item, ours, text, setting.fate, part=f"the option {option} of " if option else "")
        for option, ours, text in found
    ]
    refused = [each for each in verdicts if each.fate == "not possible"]
    if refused:
        return refused[0]
    said = "; ".join(dict.fromkeys(each.why for each in verdicts if each.why))
    return Verdict(verdicts[0].fate, said, tuple(put for each in verdicts for put in each.puts))


def _callback(section: Section, item: Item, setting: Setting) -> Verdict:
    if item.entry.value.strip().rpartition(".")[2] in OIDC:
        return section.put(item, setting.ours, "oidc", setting.fate)
    return not_possible("mirror runs no Java classes; librdkafka gets tokens by its oidc method")


def _identification(section: Section, item: Item, setting: Setting) -> Verdict:
    value = item.entry.value.strip().lower() or "none"
    why = "the brokers' host names are not checked, as the empty value asks" if value == "none" else ""
    return section.put(item, setting.ours, value, setting.fate, why)


def _buffer(section: Section, item: Item, setting: Setting) -> Verdict:
    value = item.entry.value.strip()
    return section.put(item, setting.ours, "0" if value == "-1" else value, setting.fate)


def _truststore(section: Section, item: Item, setting: Setting) -> Verdict:
    if section.value("ssl.truststore.type").upper() == "PEM":
        return section.put(item, setting.ours, item.entry.value.strip(), setting.fate)
    return not_possible(client_settings.PEM)


def _keystore(section: Section, item: Item, setting: Setting) -> Verdict:
    value = item.entry.value.strip()
    kind = section.value("ssl.keystore.type").upper()
    if kind == "PKCS12" or (not kind and value.lower().endswith((".p12", ".pfx"))):
        return section.put(item, setting.ours, value, setting.fate)
    if kind != "PEM":
        return not_possible(client_settings.P12)
    both = [section.put(item, name, value, "different") for name in ("ssl.certificate.location", "ssl.key.location")]
    return Verdict("different", "the file holds both", tuple(put for each in both for put in each.puts))


def _keystore_password(section: Section, item: Item, setting: Setting) -> Verdict:
    if section.value("ssl.keystore.type").upper() == "PEM":
        return Verdict("not needed", "a PEM file has none; ssl.key.password is that of the key")
    return section.put(item, setting.ours, item.entry.value.strip(), setting.fate)


Handler = Callable[[Section, Item, Setting], Verdict]

HANDLERS: Mapping[str, Handler] = {
    "security.protocol": _upper,
    "sasl.mechanism": _mechanism,
    "sasl.jaas.config": _jaas,
    "sasl.login.callback.handler.class": _callback,
    "ssl.endpoint.identification.algorithm": _identification,
    "send.buffer.bytes": _buffer,
    "receive.buffer.bytes": _buffer,
    "ssl.truststore.location": _truststore,
    "ssl.keystore.location": _keystore,
    "ssl.keystore.password": _keystore_password,
}
