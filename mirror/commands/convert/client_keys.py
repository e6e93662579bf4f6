"""What becomes of the properties of Java's clients: librdkafka's properties of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from mirror.commands.convert import client_settings, jaas, logins, msk
from mirror.commands.convert.entries import ClusterScope, Item
from mirror.commands.convert.setting import CARRIED, Fate, Setting, look_up
from mirror.commands.convert.table import CLIENTS
from mirror.commands.convert.variables import Variables
from mirror.commands.convert.verdict import Put, Verdict, not_possible, of_table
from mirror.config.librdkafka import client_problems
from mirror.settings import TOKEN_PROVIDER

Items = Mapping[str, Item]

# Handlers that get a token from an OIDC server with a client's id and secret, as librdkafka's oidc method does.
OIDC = ("OAuthBearerLoginCallbackHandler", "JaasClientOauthLoginCallbackHandler")

BY_HAND = "write librdkafka's sasl properties yourself"


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

    @property
    def is_msk(self) -> bool:
        """True if the section logs in to Amazon MSK with IAM."""
        return msk.is_used(self.value("sasl.mechanism"), self.value("sasl.login.callback.handler.class"))

    def msk_login(self, item: Item, *puts: Put) -> Verdict:
        """Our token provider in place of AWS' classes; `puts` are other values that the item needs."""
        if self._scope.role:
            common = self._common.get(item.name)
            same = common and common.entry.value.strip() == item.entry.value.strip()
            return Verdict("not needed", "the whole cluster has it") if same else not_possible(msk.OF_CLUSTER)
        provider = Put(("clusters", self._scope.alias, TOKEN_PROVIDER), msk.PROVIDER)
        who = self._msk_user()
        region = msk.region(self.value("bootstrap.servers"))
        if not region:
            said = f"write {msk.CONFIG}: {' '.join(filter(None, ('region=REGION', who)))}, because {msk.NO_REGION}"
            return Verdict("different", f"{msk.NEEDS}; {said}", (*puts, provider))
        config = Put(self._place(msk.CONFIG), " ".join(filter(None, (f"region={region}", who))))
        return Verdict("different", msk.NEEDS, (*puts, provider, config))

    def _msk_user(self) -> str:
        """The profile or the role that the login module names; empty if it names none, or something else."""
        try:
            return msk.who(jaas.parse(self.value("sasl.jaas.config")).options)
        except (jaas.BadJaas, msk.OtherOptions):
            return ""

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
    if value == msk.MECHANISM:
        mechanism = section.put(item, setting.ours, "OAUTHBEARER", "different")
        return section.msk_login(item, *mechanism.puts)
    return section.put(item, setting.ours, value, setting.fate)


def _upper(section: Section, item: Item, setting: Setting) -> Verdict:
    return section.put(item, setting.ours, item.entry.value.strip().upper(), setting.fate)


def _jaas(section: Section, item: Item, setting: Setting) -> Verdict:
    value = item.entry.value
    if re.fullmatch(r"\s*\$\{[^}]*\}\s*", value):
        return not_possible("the whole text comes from a reference: write sasl.username and sasl.password yourself")
    if section.is_msk:
        return _msk_jaas(section, item)
    try:
        login = jaas.parse(value)
        found = list(logins.properties(login))
    except jaas.BadJaas as error:
        return not_possible(f"{error}; {BY_HAND}")
    verdicts = [
        section.put(item, ours, text, setting.fate, part=f"the option {option} of " if option else "")
        for option, ours, text in found
    ]
    refused = [each for each in verdicts if each.fate == "not possible"]
    if refused:
        return refused[0]
    said = "; ".join(dict.fromkeys(each.why for each in verdicts if each.why))
    puts = tuple(put for each in verdicts for put in each.puts)
    missing = logins.left_out(login)
    if missing or not puts:
        lost = f"not carried: {', '.join(missing)}" if missing else "it has no option that can be carried"
        return Verdict("not possible", "; ".join(filter(None, (f"{lost}; {BY_HAND}", said))), puts)
    return Verdict(verdicts[0].fate, said, puts)


def _msk_jaas(section: Section, item: Item) -> Verdict:
    try:
        who = msk.who(jaas.parse(item.entry.value).options)
    except jaas.BadJaas as error:
        return not_possible(f"{error}; write {msk.CONFIG} yourself")
    except msk.OtherOptions:
        return not_possible(msk.OTHER_OPTIONS)
    login = section.msk_login(item)
    if not who or not login.puts:
        return login if login.fate == "not possible" else Verdict("not needed", msk.DOES_IT)
    puts = tuple(each for each in login.puts if each.place[-1] == msk.CONFIG)
    if not puts:
        return not_possible(f"write {msk.CONFIG}: region=REGION {who}, because {msk.NO_REGION}")
    return Verdict("different", f"{who.partition('=')[0]} stands after the region", puts)


def _client_callback(section: Section, item: Item, setting: Setting) -> Verdict:
    if section.is_msk and item.entry.value.strip().rpartition(".")[2] == msk.CLIENT_HANDLER:
        return Verdict("not needed", msk.DOES_IT)
    return of_table(setting)


def _callback(section: Section, item: Item, setting: Setting) -> Verdict:
    if item.entry.value.strip().rpartition(".")[2] in OIDC:
        return section.put(item, setting.ours, "oidc", setting.fate)
    if item.entry.value.strip().rpartition(".")[2] == msk.LOGIN_HANDLER:
        return section.msk_login(item)
    return not_possible(
        "mirror runs no Java classes; librdkafka gets tokens by its oidc method, and mirror by a Python callable, "
        "token_provider"
    )


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
    "sasl.client.callback.handler.class": _client_callback,
    "sasl.login.callback.handler.class": _callback,
    "ssl.endpoint.identification.algorithm": _identification,
    "send.buffer.bytes": _buffer,
    "receive.buffer.bytes": _buffer,
    "ssl.truststore.location": _truststore,
    "ssl.keystore.location": _keystore,
    "ssl.keystore.password": _keystore_password,
}
