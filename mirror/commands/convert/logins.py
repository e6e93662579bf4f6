"""`sasl.jaas.config` as librdkafka's properties. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirror.commands.convert.jaas import BadJaas, Login

# For each login module: option, librdkafka's property.
_PASSWORD = (("username", "sasl.username"), ("password", "sasl.password"))
_KERBEROS = (
    ("principal", "sasl.kerberos.principal"),
    ("keyTab", "sasl.kerberos.keytab"),
    ("serviceName", "sasl.kerberos.service.name"),
)
_OAUTH = (
    ("clientId", "sasl.oauthbearer.client.id"),
    ("clientSecret", "sasl.oauthbearer.client.secret"),
    ("scope", "sasl.oauthbearer.scope"),
    ("oauth.client.id", "sasl.oauthbearer.client.id"),
    ("oauth.client.secret", "sasl.oauthbearer.client.secret"),
    ("oauth.scope", "sasl.oauthbearer.scope"),
    ("oauth.token.endpoint.uri", "sasl.oauthbearer.token.endpoint.url"),
)
_MODULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "PlainLoginModule": _PASSWORD,
    "ScramLoginModule": _PASSWORD,
    "Krb5LoginModule": _KERBEROS,
    "OAuthBearerLoginModule": _OAUTH,
}
EXTENSION = "extension_"
# Options without which librdkafka logs in all the same.
HARMLESS = frozenset(
    {
        *("useKeyTab", "storeKey", "doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT", "debug"),
        *("serviceName", "oauth.connect.timeout.seconds", "oauth.read.timeout.seconds", "oauth.http.retries"),
        *("oauth.http.retry.pause.millis", "oauth.max.token.expiry.seconds", "oauth.enable.metrics"),
    }
)
# Others that are harmless with one value, which is the default.
DEFAULTS = {
    "tokenauth": "false",
    "useTicketCache": "false",
    "oauth.access.token.is.jwt": "true",
}


def properties(login: Login) -> Iterator[tuple[str, str, str]]:
    """The option, librdkafka's property and the value of everything that can be carried. Raises BadJaas."""
    if login.module not in _MODULES:
        known = ", ".join(_MODULES)
        raise BadJaas(f"its login module is a Java class that librdkafka does not have; it knows {known}")
    found = [
        (option, ours, login.options[option]) for option, ours in _MODULES[login.module] if option in login.options
    ]
    names = {ours for _, ours, _ in found}
    if _MODULES[login.module] is _PASSWORD and len(names) < 2:
        raise BadJaas("username and password must be there")
    if login.module == "OAuthBearerLoginModule":
        if "sasl.oauthbearer.client.secret" not in names:
            raise BadJaas("only a client's id and secret can be carried to librdkafka's oidc method")
        yield "", "sasl.oauthbearer.method", "oidc"
        extensions = [
            f"{name.removeprefix(EXTENSION)}={value}"
            for name, value in login.options.items()
            if name.startswith(EXTENSION)
        ]
        if extensions:
            yield "extension_*", "sasl.oauthbearer.extensions", ",".join(extensions)
    yield from found


def left_out(login: Login) -> list[str]:
    """The options that `properties` does not carry and that may matter. The login must be one that it takes."""
    carried = {option for option, _ in _MODULES[login.module]} | HARMLESS
    extensions = EXTENSION if login.module == "OAuthBearerLoginModule" else ()
    return [
        option
        for option, value in login.options.items()
        if option not in carried and not option.startswith(extensions) and value.lower() != DEFAULTS.get(option)
    ]
