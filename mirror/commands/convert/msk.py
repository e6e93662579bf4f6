"""Amazon MSK's login with IAM: AWS' Java classes as mirror's own token provider. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

MECHANISM = "AWS_MSK_IAM"
CLIENT_HANDLER = "IAMClientCallbackHandler"
# AWS' other way to the same tokens, with the mechanism OAUTHBEARER.
LOGIN_HANDLER = "IAMOAuthBearerLoginCallbackHandler"
PROVIDER = "mirror.msk_iam.token"
CONFIG = "sasl.oauthbearer.config"

DOES_IT = f"{PROVIDER} does what AWS' class does"
NEEDS = f"{PROVIDER} signs the tokens: pip install 'kafka-mirror-spark[msk-iam]', also where executors run"
NO_REGION = "the servers' names do not tell the region"
OF_CLUSTER = "token_provider is a key of a whole cluster, and not of its consumers or producers"
OTHER_OPTIONS = (
    f"{PROVIDER} takes a profile or a role; give other credentials in one of the ways that AWS' own library knows"
)

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com")
_OPTIONS = {"awsProfileName": "profile", "awsRoleArn": "role"}
_NOT_NEEDED = {"awsRoleSessionName", "awsStsRegion", "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"}


class OtherOptions(Exception):
    """The login module has options that our token provider does not know."""


def is_used(mechanism: str, handler: str) -> bool:
    """True if a cluster's mechanism and login handler are AWS'."""
    return mechanism.upper() == MECHANISM or handler.rpartition(".")[2] == LOGIN_HANDLER


def who(options: Mapping[str, str]) -> str:
    """The options of the login module as they stand after the region; empty if there are none. Raises OtherOptions."""
    found = [f"{_OPTIONS[name]}={value}" for name, value in options.items() if name in _OPTIONS]
    strange = options.keys() - _OPTIONS.keys() - _NOT_NEEDED
    if strange or len(found) > 1 or any(re.search(r"\s|\$\{", each) for each in found):
        raise OtherOptions
    return "".join(found)


def region(servers: str) -> str:
    """The region that the names of MSK's brokers tell; empty if they do not tell one."""
    found = set(_REGION.findall(servers))
    return found.pop() if len(found) == 1 else ""
