"""sasl.jaas.config: what is read of it, and that no refusal shows what it holds."""

from __future__ import annotations

import pytest

from mirror.commands.convert.jaas import BadJaas, parse
from mirror.commands.convert.logins import properties

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


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
