"""sasl.jaas.config: what is read of it, and that no refusal shows what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.commands.convert.jaas import BadJaas, parse
from mirror.commands.convert.logins import left_out, properties
from tests.unit.commands.convert.test_convert import SHORT, converted, fates, why

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
LOGIN = 'username="a" password="SECRET"'
CLIENT = 'oauth.client.id="me" oauth.client.secret="SECRET" oauth.token.endpoint.uri="https://id.example"'


@pytest.mark.parametrize(
    "text, expected",
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} required\n username='a'\n password=b ;", {"username": "a", "password": "b"}),
        (f'{PLAIN} REQUIRED username="a" password="x\\"; =y";', {"username": "a", "password": 'x"; =y'}),
        (f"{PLAIN} required;", {}),
        (f'{OAUTH} required clientId="a" extension_x="y";', {"clientId": "a", "extension_x": "y"}),
    ],
)
def test_forms(text: str, expected: dict[str, str]) -> None:
    login = parse(text)
    assert login.module == text.split(maxsplit=1)[0].rpartition(".")[2].rstrip(";")
    assert login.options == expected
    assert "b" not in repr(login).replace("PlainLogin", "").replace("OAuthBearerLogin", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SECRET",
        f'{PLAIN} username="a" password="SECRET";',
        f'{PLAIN} required username="a" password="SECRET"',
        f'{PLAIN} required username="a" password="SECRET;',
        f"{PLAIN} required username password=SECRET;",
        f'{PLAIN} required password="SECRET"; {PLAIN} required;',
        f"{PLAIN} required password=(SECRET);",
    ],
)
def test_what_is_malformed_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(BadJaas) as caught:
        parse(text)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "text, said",
    [
        ('software.amazon.msk.auth.iam.IAMLoginModule required x="SECRET";', "Java class"),
        (f'{PLAIN} required username="SECRET";', "username and password"),
        (f'{OAUTH} required unsecuredLoginStringClaim_sub="SECRET";', "oidc"),
    ],
)
def test_what_librdkafka_does_not_have_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadJaas, match=said) as caught:
        list(properties(parse(text)))
    assert "SECRET" not in str(caught.value)


def test_oauth() -> None:
    login = parse(f'{OAUTH} required clientId="me" clientSecret="s" scope="all" extension_a="1" extension_b="2";')
    assert {ours: value for _, ours, value in properties(login)} == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "all",
        "sasl.oauthbearer.extensions": "a=1,b=2",
    }


@pytest.mark.parametrize(
    "text, lost",
    [
        (f"{SCRAM} required {LOGIN} tokenauth=true;", ["tokenauth"]),
        (f"{SCRAM} required {LOGIN} tokenauth=False;", []),
        (f"{PLAIN} required {LOGIN} serviceName=kafka;", []),
        (f"{PLAIN} required {LOGIN} extension_x=y;", ["extension_x"]),
        (f"{OAUTH} required {CLIENT} extension_x=y oauth.scope=all oauth.access.token.is.jwt=true;", []),
        (
            f"{OAUTH} required {CLIENT} oauth.ssl.truststore.location=/ca.p12 oauth.audience=kafka;",
            ["oauth.ssl.truststore.location", "oauth.audience"],
        ),
        (f"{OAUTH} required {CLIENT} oauth.access.token.is.jwt=false;", ["oauth.access.token.is.jwt"]),
        (f"{KERBEROS} required useKeyTab=true storeKey=true keyTab=/k principal=p useTicketCache=false;", []),
        (f"{KERBEROS} required useTicketCache=true ticketCache=/c;", ["useTicketCache", "ticketCache"]),
    ],
)
def test_an_option_that_is_not_carried_is_named(tmp_path: Path, text: str, lost: list[str]) -> None:
    assert left_out(parse(text)) == lost
    found = converted(tmp_path, f"{SHORT}a.sasl.jaas.config={text}\n")
    assert fates(found)["a.sasl.jaas.config"] == ("not possible" if lost else "renamed")
    assert found.whole == (not lost)
    said = why(found, "a.sasl.jaas.config")
    assert not lost or said.startswith(f"not carried: {', '.join(lost)}; write librdkafka's sasl properties yourself")
    assert "SECRET" not in said.replace("CLIENT_SECRET", "")


def test_the_other_options_are_carried_all_the_same(tmp_path: Path) -> None:
    found = converted(tmp_path, f"{SHORT}a.sasl.jaas.config={SCRAM} required {LOGIN} tokenauth=true;\n")
    assert "sasl.username: a" in found.text and "sasl.password: ${env:A_SASL_PASSWORD}" in found.text
    three = SHORT.replace("a,b", "a,b,c") + "c.bootstrap.servers=c:1\na->c.enabled=true\n"
    key = "a->b.source.consumer.sasl.jaas.config"
    found = converted(tmp_path, f"{three}{key}={SCRAM} required {LOGIN} tokenauth=true;\n")
    assert fates(found)[key] == "not possible", "that it holds for other flows, too, does not make it better"


def test_a_login_without_options_is_for_a_person_to_write(tmp_path: Path) -> None:
    found = converted(tmp_path, f"{SHORT}a.sasl.jaas.config={KERBEROS} required useKeyTab=true;\n")
    assert fates(found)["a.sasl.jaas.config"] == "not possible"
    assert "no option that can be carried" in why(found, "a.sasl.jaas.config")
