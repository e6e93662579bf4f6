"""Tokens for Amazon MSK's IAM access control. It needs `pip install 'kafka-mirror-spark[msk-iam]'`.

    token_provider: mirror.msk_iam.token
    sasl.oauthbearer.config: region=eu-west-1

The credentials are those that AWS' own library finds: variables, a profile, a role of the pod or the machine. After the
region may follow `profile=NAME`, or `role=ARN` for a role to be assumed.
"""

from __future__ import annotations

from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

from mirror.errors import TokenProviderUnusable

_KEYS = {"region", "profile", "role"}
_SESSION = "mirror"  # what AWS' logs call the session of an assumed role


def token(config: str) -> tuple[str, float]:
    """A signed URL, which MSK takes for a token, and when it expires (seconds since the Unix epoch).

    Raises TokenProviderUnusable for another configuration.
    """
    given = dict(part.partition("=")[::2] for part in config.split())
    if "region" not in given or not given.keys() <= _KEYS or not all(given.values()) or len(given) > 2:
        said = "needs sasl.oauthbearer.config: region=REGION, and after that profile=NAME or role=ARN if need be"
        raise TokenProviderUnusable(said)
    if "profile" in given:
        found = MSKAuthTokenProvider.generate_auth_token_from_profile(given["region"], given["profile"])
    elif "role" in given:
        found = MSKAuthTokenProvider.generate_auth_token_from_role_arn(given["region"], given["role"], _SESSION)
    else:
        found = MSKAuthTokenProvider.generate_auth_token(given["region"])
    value, expires_at = found
    return str(value), int(expires_at) / 1000
