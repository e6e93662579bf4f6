"""Amazon MSK with IAM becomes mirror's own token provider."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirror.commands.convert import msk
from mirror.commands.convert.command import Conversion
from tests.unit.commands.convert.test_convert import SHORT, converted, fates, why

SERVERS = "b-1.mine.ab12.c3.kafka.eu-west-1.amazonaws.com:9098, b-2.mine.ab12.c3.kafka.eu-west-1.amazonaws.com:9098"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
LOGIN = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"


def of(folder: Path, *lines: str, servers: str = SERVERS) -> Conversion:
    text = SHORT.replace("a.bootstrap.servers=a:1", f"a.bootstrap.servers={servers}")
    return converted(folder, text + "a.security.protocol=SASL_SSL\n" + "\n".join(lines) + "\n")


def cluster(found: Conversion) -> dict[str, str]:
    """What our file has for the cluster, without its address."""
    tree = yaml.safe_load(found.text)["clusters"]["a"]
    return {name: value for name, value in tree.items() if name not in ("bootstrap.servers", "security.protocol")}


OURS = {
    "sasl.mechanisms": "OAUTHBEARER",
    "token_provider": "mirror.msk_iam.token",
    "sasl.oauthbearer.config": "region=eu-west-1",
}


def test_aws_own_mechanism(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        "a.sasl.mechanism=AWS_MSK_IAM",
        f"a.sasl.jaas.config={MODULE} required;",
        f"a.sasl.client.callback.handler.class={HANDLER}",
    )
    assert cluster(found) == OURS and found.whole
    assert fates(found)["a.sasl.mechanism"] == "different"
    assert "pip install 'kafka-mirror-spark[msk-iam]'" in why(found, "a.sasl.mechanism")
    assert fates(found)["a.sasl.jaas.config"] == fates(found)["a.sasl.client.callback.handler.class"] == "not needed"


def test_aws_handler_of_tokens(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        "a.sasl.mechanism=OAUTHBEARER",
        "a.sasl.jaas.config=x.OAuthBearerLoginModule required;",
        f"a.sasl.login.callback.handler.class={LOGIN}",
    )
    assert cluster(found) == OURS and found.whole
    assert fates(found)["a.sasl.login.callback.handler.class"] == "different"


@pytest.mark.parametrize("option, ours", [("awsProfileName", "profile"), ("awsRoleArn", "role")])
def test_a_profile_or_a_role(tmp_path: Path, option: str, ours: str) -> None:
    jaas = f'a.sasl.jaas.config={MODULE} required {option}="arn:x" awsDebugCreds=true;'
    found = of(tmp_path, "a.sasl.mechanism=AWS_MSK_IAM", jaas)
    assert cluster(found) == OURS | {"sasl.oauthbearer.config": f"region=eu-west-1 {ours}=arn:x"}
    assert fates(found)["a.sasl.jaas.config"] == "different" and found.whole
    found = of(tmp_path, "a.sasl.mechanism=AWS_MSK_IAM", jaas, servers="broker:9098")
    assert f"region=REGION {ours}=arn:x" in why(found, "a.sasl.jaas.config") and not found.whole


@pytest.mark.parametrize(
    "options", ['awsRoleAccessKeyId="SECRET"', 'awsProfileName="a" awsRoleArn="b"', 'awsRoleArn="${env:X}"', "x="]
)
def test_what_our_provider_does_not_know(tmp_path: Path, options: str) -> None:
    found = of(tmp_path, "a.sasl.mechanism=AWS_MSK_IAM", f"a.sasl.jaas.config={MODULE} required {options};")
    assert cluster(found) == OURS and not found.whole
    assert fates(found)["a.sasl.jaas.config"] == "not possible"
    assert "SECRET" not in str(found.as_dict())


def test_a_region_that_nobody_tells_is_asked_for(tmp_path: Path) -> None:
    found = of(tmp_path, "a.sasl.mechanism=AWS_MSK_IAM", servers="broker.example:9098")
    assert "sasl.oauthbearer.config" not in cluster(found)
    assert "    # sasl.oauthbearer.config: region=REGION # " in found.text
    assert "region=REGION" in why(found, "a.sasl.mechanism")


def test_of_one_kind_of_client(tmp_path: Path) -> None:
    found = of(tmp_path, "a.sasl.mechanism=AWS_MSK_IAM", "a->b.source.consumer.sasl.mechanism=AWS_MSK_IAM")
    assert fates(found)["a->b.source.consumer.sasl.mechanism"] == "not needed" and cluster(found) == OURS
    found = of(tmp_path, "a->b.source.consumer.sasl.mechanism=AWS_MSK_IAM")
    assert why(found, "a->b.source.consumer.sasl.mechanism") == msk.OF_CLUSTER and cluster(found) == {}


@pytest.mark.parametrize(
    "servers, region",
    [
        (SERVERS, "eu-west-1"),
        ("boot-x.c2.kafka-serverless.us-gov-west-1.amazonaws.com:9098", "us-gov-west-1"),
        ("b-1.x.y.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("a.kafka.eu-west-1.amazonaws.com:1,b.kafka.eu-west-2.amazonaws.com:1", ""),
        ("a:9092", ""),
    ],
)
def test_the_region(servers: str, region: str) -> None:
    assert msk.region(servers) == region
