"""A cluster that wants to know who its clients are, by any of the ways that it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mirror.demo.brokers import LocalCluster, free_port
from mirror.demo.jvm import quick_start_options
from tests.harness import credentials
from tests.harness.certificates import Certificate, key_set
from tests.harness.tokens import AUDIENCE, ISSUER

USER, PASSWORD = "mirror", "xq7-Hunter-secured"
LIMITED = "limited"  # a user of PLAIN with the same password, who may do only what ACLs allow
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
_MODULES = "org.apache.kafka.common.security"
_VALIDATOR = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"


@dataclass
class SecuredCluster:
    """One broker with a plain listener for the tests, one with TLS and SASL, and one that wants a certificate.

    It believes tokens that were signed with one key, and clients with the certificate `client`. All may do everything,
    but for LIMITED.
    """

    cluster: LocalCluster
    sasl: str  # the listeners' addresses
    mutual: str
    server: Certificate
    client: Certificate

    @property
    def bootstrap(self) -> str:
        """The plain listener."""
        return self.cluster.bootstrap

    def present(self, server: Certificate, client: Certificate) -> None:
        """Show another certificate from the next start on, and believe only another one."""
        self.server, self.client = server, client
        (broker,) = self.cluster.brokers
        tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": server.both, "ssl.client.auth": "none"}
        mutual = {**tls, "ssl.client.auth": "required", "ssl.truststore.type": "PEM"}
        mutual["ssl.truststore.location"] = client.certificate
        for listener, properties in (("sasl_ssl", tls), ("mutual", mutual)):
            broker.properties |= {f"listener.name.{listener}.{key}": value for key, value in properties.items()}

    def with_certificate(self) -> dict[str, str]:
        """What a client needs that shows a certificate."""
        return {
            "bootstrap.servers": self.mutual,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.server.certificate),
            "ssl.certificate.location": str(self.client.certificate),
            "ssl.key.location": str(self.client.key),
        }

    def with_sasl(self, mechanism: str, **more: str) -> dict[str, str]:
        """What a client needs that logs in over TLS."""
        login = {} if mechanism == "OAUTHBEARER" else {"sasl.username": USER, "sasl.password": PASSWORD}
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": mechanism,
            "ssl.ca.location": str(self.server.certificate),
            **login,
            **more,
        }

    def allow(self, password: str = PASSWORD) -> None:
        """Give the user its password for SCRAM."""
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            credentials.allow(self.bootstrap, USER, password, mechanism)


def secured_cluster(
    name: str, directory: Path, server: Certificate, client: Certificate, signer: Path
) -> SecuredCluster:
    """A secured cluster that is not started yet."""
    keys = directory / "keys.json"
    keys.write_text(key_set(signer))
    believed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
    cluster = LocalCluster(name, directory, java_options=[*quick_start_options(), believed])
    (broker,) = cluster.brokers
    sasl, mutual = (f"127.0.0.1:{free_port()}" for _ in range(2))
    for key in ("listeners", "advertised.listeners"):
        broker.properties[key] = f"{broker.properties[key]},SASL_SSL://{sasl},MUTUAL://{mutual}"
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (USER, LIMITED))
    plain = f"{_MODULES}.plain.PlainLoginModule required {users};"
    own = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "plain.sasl.jaas.config": plain,
        "oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        "unsecuredLoginStringClaim_sub=broker;",
        "oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    broker.properties["listener.security.protocol.map"] = (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,MUTUAL:SSL"
    )
    broker.properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker.properties["super.users"] = f"User:ANONYMOUS;User:{USER};User:CN=client;User:CN=new-client"
    broker.properties["sasl.enabled.mechanisms"] = own["sasl.enabled.mechanisms"]
    broker.properties |= {f"listener.name.sasl_ssl.{key}": value for key, value in own.items()}
    found = SecuredCluster(cluster, sasl, mutual, server, client)
    found.present(server, client)
    return found
