"""The types of the configuration's values: how each is read, what it may be, and what its error says.

What `allowed` says completes "must be ..." in error messages, in `mirror schema` and in the reference. Scalars come as
text (see `located_yaml`).
"""

from __future__ import annotations

import keyword
import re
import warnings
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from mirror import own_policy, user_code
from mirror.naming import MIRRORMAKERS, NAME_MAX
from mirror.settings import NO_TRANSFORM
from mirror.template import Template

_SECONDS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_AMOUNT = r"\d{1,15}(?:\.\d{1,9})?"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# host, host:port or [IPv6]:port, with or without a listener's name, as librdkafka takes them.
SERVER = re.compile(r"(?:(?P<protocol>\w+)://)?(?P<host>\[[0-9a-fA-F:.%\w]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?")
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")

_TOKEN = re.compile(r"[a-zA-Z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110

EXPLAINED = "explained"  # the type of errors whose own text is shown

NAME = re.compile(r"[a-zA-Z0-9._-]+")  # the characters of a topic's name
_ALIAS_MAX = 100

ALLOWED = "allowed"  # the keyword of our JSON schema that completes "must be ..."


def explained(text: str, **context: Any) -> PydanticCustomError:
    """An error whose own text is shown. For a ValueError "must be" and the key's description are shown instead."""
    return PydanticCustomError(EXPLAINED, text, context)


def seconds(value: Any) -> float:
    """A duration such as 10, "500ms", "10s", "5m" or "1h". Raises ValueError."""
    return _with_unit(value, _SECONDS)


def size(value: Any) -> int:
    """Bytes: 1024, "64KiB", "16MiB", "10MB". Raises ValueError."""
    return int(_with_unit(value, _BYTES))


def _with_unit(value: Any, units: dict[str, float] | dict[str, int]) -> float:
    match = re.fullmatch(rf"({_AMOUNT}) ?([a-zA-Z]*)", str(value), re.ASCII)
    if not match or match[2] not in units:
        raise ValueError(value)
    return round(float(match[1]) * units[match[2]], 9)


def start(value: Any) -> str | int:
    """Parse where a flow starts: earliest, latest, milliseconds since the epoch, or an ISO time with its zone.

    Raises ValueError.
    """
    text = str(value)
    if text in ("earliest", "latest"):
        return text
    if re.fullmatch(r"\d{1,15}", text, re.ASCII):
        return int(text)
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows a small "z", Python does not
    if moment.tzinfo is None:
        raise explained('"{value}" has no time zone; write e.g. 2025-01-31T12:00:00Z or ...+01:00', value=text)
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise ValueError(value)
    return milliseconds


def _pattern(value: str) -> str:
    try:
        with warnings.catch_warnings():
            # Python warns of sets within sets, and of [a&&b]: they mean something else to it than to Java.
            warnings.simplefilter("error", FutureWarning)
            re.compile(value)
    except FutureWarning:
        said = (
            'bad regular expression "{value}": sets within sets, such as [[:alpha:]] or [a-z&&[^o]], mean something '
            "else here than in Java; write one set such as [a-zA-Z], and a \\ before each [, &, |, - and ~ in it"
        )
        raise explained(said, value=value) from None
    except (re.error, OverflowError, RecursionError) as error:
        hint = '; for any characters write ".*"' if value.startswith("*") else ""
        said = 'bad regular expression "{value}": {reason}{hint}'
        raise explained(said, value=value, reason=str(error), hint=hint) from None
    return value


def _template(value: str) -> str:
    try:
        Template.parse(value)
    except ValueError as error:
        raise explained('bad template "{value}": {reason}', value=f"{value:.60}", reason=str(error)) from None
    return value


def _endpoint(value: str) -> str:
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname or url.port == 0:  # a bad port raises ValueError, too
        raise ValueError(value)
    if url.username is not None or url.query or url.fragment:
        raise explained("a URL must hold no user, password, query or fragment; use headers")
    return value


def _header(value: str) -> str:
    """A part of an HTTP header. What a library would refuse is refused here, where it is not shown."""
    if value != value.strip() or not value.isprintable() or not value.isascii():
        raise explained("must be printable ASCII text without blanks around it")
    return value


def _header_name(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise explained("a header's name must be made of letters, digits and !#$%&'*+-.^_`|~ only")
    return value


def _policy(value: str) -> str:
    if value in MIRRORMAKERS:
        return value
    if not user_code.PATH.fullmatch(value):
        raise ValueError(value)
    try:
        own_policy.load(value)
    except ValueError as error:
        raise explained("{value} can't be used: {reason}", value=f"{value:.100}", reason=f"{error!s:.300}") from None
    return value


def _alias(value: str) -> str:
    if not NAME.fullmatch(value) or len(value) > _ALIAS_MAX:
        said = f"a cluster's alias must have 1 to {_ALIAS_MAX} letters, digits, '.', '_' and '-'"
        raise explained(said)
    return value


def _defined(value: str, info: ValidationInfo) -> str:
    aliases = (info.context or {}).get("aliases", [value])
    if value not in aliases:
        raise explained('undefined cluster "{value}"; defined: {known}', value=value, known=", ".join(aliases))
    return value


def _servers(value: str) -> str:
    for server in value.split(","):
        match = SERVER.fullmatch(server.strip())
        known = match and (match["protocol"] or "plaintext").lower() in _PROTOCOLS
        if not match or not known or int(match["port"] or 1) not in range(1, 65536):
            raise ValueError(server)
    return value


def allowed(words: str, **limits: Any) -> Any:
    """A field whose value is limited. `words` completes "must be ..."."""
    return Field(json_schema_extra={ALLOWED: words}, **limits)


def whole_number(low: int, high: int, also: str = "") -> Any:
    """A field that holds a whole number from `low` to `high`. `also` says more about it."""
    return allowed(f"a whole number from {low} to {high}{also}", ge=low, le=high)


def _amount(units: dict[str, float] | dict[str, int], number: str) -> WithJsonSchema:
    """The JSON schema of an amount with one of `units`."""
    pattern = f"^{_AMOUNT} ?({'|'.join(units)})$"
    return WithJsonSchema({"type": [number, "string"], "pattern": pattern})


def duration_range(low: str, high: str) -> Any:
    """A field that holds a Duration from `low` to `high`."""
    words = f"a duration from {low} to {high}, such as 500ms, 10s, 5m or 1h (a bare number is seconds)"
    return allowed(words, ge=seconds(low), le=seconds(high))


def _factor(value: int) -> int:
    if value != -1 and not 1 <= value <= 32767:
        raise ValueError(value)
    return value


def _topic(value: str) -> str:
    if not NAME.fullmatch(value) or len(value) > NAME_MAX:
        raise explained(f"a topic's name must have 1 to {NAME_MAX} letters, digits, '.', '_' and '-'")
    return value


def _path(value: str) -> str:
    if not user_code.PATH.fullmatch(value) or any(map(keyword.iskeyword, value.split("."))):
        raise ValueError(value)
    return value


def _user(value: str) -> str:
    if ":" in value or not value.isprintable():
        raise ValueError(value)
    return value


def _own_transform(value: str) -> str:
    return value if value == NO_TRANSFORM else _path(value)


Duration = Annotated[float, BeforeValidator(seconds), _amount(_SECONDS, "number")]
Size = Annotated[
    int,
    BeforeValidator(size),
    _amount(_BYTES, "integer"),
    allowed("a size from 1 to 1GiB, such as 64KiB, 16MiB or 10MB (a bare number is bytes)", ge=1, le=2**30),
]
# What `allowed` says of a Rate: each key adds what else it may be.
RATE = "a size per second from 1KB to 100GB, such as 500KB, 10MB or 64MiB (a bare number is bytes)"
Rate = Annotated[int, BeforeValidator(size), _amount(_BYTES, "integer"), Field(ge=1_000, le=10**11)]
StartValue = Annotated[
    Literal["earliest", "latest"] | int,
    BeforeValidator(start),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^(earliest|latest|\d{1,15}|\d{4}-\d\d-\d\d.*)$"}),
    allowed(
        "earliest, latest, a time from 1970 on with its zone such as 2025-01-31T12:00:00Z, or milliseconds since 1970"
    ),
]
Factor = Annotated[
    int,
    AfterValidator(_factor),
    WithJsonSchema({"type": "integer", "minimum": -1, "maximum": 32767, "not": {"const": 0}}),
    allowed("-1 (the target broker's default) or a whole number from 1 to 32767"),
]
_SINGLE = "a single value: text, a number, true or false"
Property = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"], ALLOWED: _SINGLE})]
Properties = Annotated[dict[str, Property], allowed("a mapping, e.g. {fetch.min.bytes: 1}, or {}")]
Text = Annotated[str, allowed("text, not empty", min_length=1)]
# Without a pattern, for which pydantic would describe the clusters in another place of the schema.
_ALIAS_SCHEMA = {"type": "string", "minLength": 1, "maxLength": _ALIAS_MAX}
Alias = Annotated[str, AfterValidator(_alias), WithJsonSchema(_ALIAS_SCHEMA)]
Reference = Annotated[Text, AfterValidator(_defined), allowed("the alias of a cluster under clusters")]
Pattern = Annotated[
    Text,
    AfterValidator(_pattern),
    allowed("a topic's name, or a regular expression that matches the whole name"),
]
Separator = Annotated[str, allowed("letters, digits, '.', '_' and '-' only", pattern=f"^{NAME.pattern}$")]
Servers = Annotated[str, AfterValidator(_servers)]
TopicName = Annotated[str, AfterValidator(_topic)]
RemoteName = Annotated[Text, AfterValidator(_topic)]
NameTemplate = Annotated[str, AfterValidator(_template)]
PolicyName = Annotated[str, AfterValidator(_policy)]
CallablePath = Annotated[str, AfterValidator(_path)]
UserName = Annotated[Text, AfterValidator(_user)]
TopicTransform = Annotated[str, AfterValidator(_own_transform)]
Url = Annotated[str, AfterValidator(_endpoint)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
HeaderValue = Annotated[Text, AfterValidator(_header)]


class Section(BaseModel):
    """A part of the file, with the keys that it may have."""

    # The schema shows people the names of the settings.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        model_title_generator=lambda model: model.__name__.removesuffix("Model"),
    )
