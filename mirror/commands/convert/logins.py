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
